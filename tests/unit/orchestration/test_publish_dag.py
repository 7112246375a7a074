"""The task that writes the site."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from nightbench.core.model import Publication, Suite
from nightbench.orchestration import verdict_dags
from nightbench.report import site
from nightbench.warehouse.site import SiteRepository


def write_site() -> str:
    task: Any = verdict_dags.publish
    said: str = task.function()
    return said


def test_without_a_place_nothing_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NIGHTBENCH_SITE", raising=False)
    with pytest.raises(AirflowSkipException, match="NIGHTBENCH_SITE is not set"):
        write_site()


def test_the_site_is_read_with_the_rights_of_a_reader_and_written_to_its_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []

    def connect(conn_id: str) -> Any:
        opened.append(conn_id)
        return StringIO()  # It is closed, and asked for nothing.

    suite = Suite("demo", "somebody", "local", (), publish=Publication())
    monkeypatch.setattr(verdict_dags, "connect", connect)
    monkeypatch.setattr(site, "published_suites", lambda: ([suite], None))
    monkeypatch.setattr(SiteRepository, "shown", lambda *_: [])
    monkeypatch.setenv("NIGHTBENCH_SITE", str(tmp_path / "site"))
    monkeypatch.setenv("NIGHTBENCH_SITE_URL", "https://bench.example")
    assert "files written" in write_site()
    assert opened == ["nightbench_warehouse_reader"]
    assert "https://bench.example/" in (tmp_path / "site/changes.xml").read_text()
