"""The page of an acceptance: modes by shapes, what did not pass and why, what was skipped."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from nightbench.report.acceptance_page import acceptance_page

AT = datetime(2026, 11, 26, 7, 30, tzinfo=UTC)


def mode(name: str, outcome: str, devices: str | None = "1x1", **more: Any) -> dict[str, Any]:
    last = {
        "build_id": "pytorch-cuda13-index-locked",
        "framework_version": "2.13.0",
        "driver": "580.65",
        "run_id": "acceptance-1",
        "started_at": AT,
        "efficiency": 1.0 if devices == "1x1" else 0.934,
        "plain_ratio": 0.976 if devices == "1x1" else None,
        "plain_low": 0.951,
        "plain_high": 1.002,
        **{key: more.pop(key) for key in ("framework_version",) if key in more},
    }
    return {
        "line": "pytorch",
        "mode": name,
        "outcome": outcome,
        "reason": None,
        "case_id": f"case of {name}",
        "strategy": devices and name.split()[0],
        "devices": devices,
        "last": last,
        **more,
    }


def test_it_shows_modes_by_shapes_and_what_did_not_pass() -> None:
    why = "mode_used: trainer-0: compiler is none, not <inductor>"
    page = acceptance_page(
        "h100",
        [
            mode("single", "passed"),
            mode("collective", "passed", "1x2"),
            mode("single inductor", "failed", reason=why, framework_version=None),
            mode("collective bf16", "due", "1x2", reason="never tried here", last=None),
            mode("strategy servers", "skipped", None, reason="it has none", last=None),
        ],
        AT,
    )
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index("<body>") :]))
    assert "2 passed 1 failed 1 due 1 skipped" in text
    assert text.count("pytorch-cuda13-index-locked") == 1
    assert "pytorch-cuda13-index-locked 2.13.0, driver 580.65 mode" in text
    assert (
        "mode single 1x1 collective 1x2 fp32 passed 2026-11-26, 0.98 of a plain loop passed "
        "2026-11-26, efficiency 0.93" in text
    )
    assert "single inductor , failed : mode_used: trainer-0: compiler is none, not &lt;" in text
    assert "Run acceptance-1, case case of single inductor." in text
    assert text.count("collective bf16") == 0, "the table says that it is due"
    assert "1 skipped strategy servers : it has none" in text
    assert "src=" not in page
    assert "<script" not in page
