"""An import ends with the changes of its series, and opens alerts for recent falls on request."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.warehouse import Warehouse

HEADER = (
    "at,cluster,workload,framework,strategy,batch_size_per_device,scale,throughput,unit,"
    "framework_version"
)
START = datetime(2026, 2, 1, 1, tzinfo=UTC)


@pytest.fixture
def command(warehouse, monkeypatch, tmp_path):
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.loader)
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    return lambda *words: CliRunner().invoke(app, ["import", *map(str, words)])


def history(tmp_path: Path, **levels: float) -> Path:
    """Forty nights at 100, then ten at a level with another version, for each workload."""
    lines = [HEADER]
    for workload, level in levels.items():
        for night in range(50):
            version = "2.13" if night < 40 else "2.14"
            value = (100 if night < 40 else level) * (1 + 0.002 * (night % 5 - 2))
            at = (START + timedelta(days=night)).isoformat()
            lines.append(f"{at},lab,{workload},pytorch,single,2,smoke,{value:.3f},images,{version}")
    path = tmp_path / "history.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_changes_are_shown_with_date_size_and_interval(command, tmp_path, connection):
    done = command(history(tmp_path, falls=90.0, stays=100.0))
    assert done.exit_code == 0, done.output
    assert "100 medians of " in done.output
    assert re.search(
        r"^regressed .*falls-pytorch-single-1x1-bs2-smoke on lab\n    regressed on 2026-03-13 ",
        done.output,
        re.MULTILINE,
    )
    interval = r"\(90% interval -\d+\.\d% to -\d+\.\d%\) since"
    assert re.search(rf"-(9\.\d|10\.\d)% {interval}", done.output)
    assert re.search(
        r"^ok +50 +0 +\d\.\d%  stays-pytorch-single-1x1-bs2-smoke on lab$",
        done.output,
        re.MULTILINE,
    )
    assert "use --alerts" in done.output
    assert Warehouse(connection).alerts.find() == []


def test_alerts_open_on_request_once_and_for_falls_only(command, tmp_path, connection):
    path = history(tmp_path, falls=90.0, rises=110.0, stays=100.0)
    done = command(path, "--alerts")
    assert "opened 1 alerts: falls-pytorch-single-1x1-bs2-smoke on lab" in done.output
    assert "opened 0 alerts" in command(path, "--alerts").output
    (alert,) = Warehouse(connection).alerts.find()
    assert alert["change"] == pytest.approx(-0.1, abs=0.005)
    assert alert["since"] == START + timedelta(days=40)
    assert alert["notified_at"] is not None
    assert (alert["cause"], alert["cause_suspect"]) == (
        "framework_version",
        "pytorch 2.13 -> 2.14",
    )
