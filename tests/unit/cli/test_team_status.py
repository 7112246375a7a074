"""`nightbench status` of a team's Airflow whose API server is away."""

from __future__ import annotations

import json
import socket

import pytest

from nightbench.cli.main import app


def test_an_api_server_that_does_not_answer_is_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NIGHTBENCH_STACK", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("NIGHTBENCH_AIRFLOW", f"http://ada:secret@127.0.0.1:{port}")
    assert app(["status", "--json"], standalone_mode=False) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"name": "api-server", "state": "does not answer"}
    ]
