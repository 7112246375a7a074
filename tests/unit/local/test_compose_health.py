"""The health check of the Compose stack ends what hangs, and nothing else."""

from __future__ import annotations

import importlib.util
import io
import json
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "docker" / "airflow" / "health.py"
COMPONENTS = ("metadatabase", "scheduler", "triggerer", "dag_processor")


@pytest.fixture
def killed(health: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(health.os, "kill", lambda *words: calls.append(words))
    return calls


@pytest.fixture
def health(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compose_health", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "COUNT", tmp_path / "unhealthy")
    monkeypatch.setattr(module, "_age_s", lambda: 999.0)
    return module


def answers(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, unhealthy: tuple[str, ...] | None
) -> None:
    """The API server's answer; None: it does not answer."""

    def urlopen(*_: object, **__: object) -> io.BytesIO:
        if unhealthy is None:
            raise OSError("refused")
        said = {
            name: {"status": "unhealthy" if name in unhealthy else "healthy"} for name in COMPONENTS
        }
        return io.BytesIO(json.dumps(said).encode())

    monkeypatch.setattr(module.urllib.request, "urlopen", urlopen)


@pytest.mark.parametrize(
    ("component", "unhealthy", "status", "ends"),
    [
        ("scheduler", ("scheduler",), 1, True),
        ("metadatabase", None, 1, True),
        ("scheduler", None, 0, False),
        ("triggerer", ("scheduler",), 0, False),
        *((name, COMPONENTS, 1, False) for name in COMPONENTS),  # the database is away
    ],
)
def test_what_hangs_is_ended_after_four_failures(
    health: ModuleType,
    killed: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    component: str,
    unhealthy: tuple[str, ...] | None,
    status: int,
    ends: bool,
) -> None:
    answers(health, monkeypatch, unhealthy)
    assert [health.main(component) for _ in range(3)] == [status] * 3
    assert not killed
    assert health.main(component) == status
    assert bool(killed) is ends


def test_a_slow_start_is_no_hang(
    health: ModuleType, killed: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(health, monkeypatch, None)
    monkeypatch.setattr(health, "_age_s", lambda: health.START_S - 1)
    assert [health.main("metadatabase") for _ in range(9)] == [1] * 9
    assert not killed


@pytest.mark.parametrize(
    ("said", "status", "ends"),
    [("healthy", 0, False), ("no answer", 1, True), ("NO_BROKER", 1, False)],
)
def test_a_worker_is_ended_only_while_its_broker_is_there(
    health: ModuleType,
    killed: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    status: int,
    ends: bool,
) -> None:
    monkeypatch.setattr(health, "_worker", lambda: getattr(health, said, said))
    assert [health.main("celery") for _ in range(4)] == [status] * 4
    assert bool(killed) is ends


def test_a_broker_that_does_not_answer_is_away(
    health: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = tmp_path / "broker"
    broker.write_text("redis://127.0.0.1:1/0\n")
    monkeypatch.setattr(health, "BROKER", broker)
    assert health._worker() == health.NO_BROKER
