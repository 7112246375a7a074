"""The password goes to a terminal, and into no file that a person makes of the output."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from rich.console import Console

from nightbench.cli import common
from nightbench.local import deployment
from nightbench.local.deployment import Logins

ACCESS = Logins("http://127.0.0.1:8080", "admin", "s3cret", "viewer", "v", "psql")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_password_is_for_terminals(
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    monkeypatch.setattr(deployment, "logins", lambda _: ACCESS)
    monkeypatch.setattr(common, "out", Console())
    common.show_access()
    text = "".join(capsys.readouterr().out.split())
    assert ("s3cret" in text) is is_terminal
    assert (str(tmp_path) in text) is not is_terminal
