"""Who tells that the kernel killed a process for memory: its cgroup, else the whole machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodeside import cgroups


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's count, in which other people's processes are counted too."""
    path = tmp_path / "vmstat"
    path.write_text("nr_free_pages 1\noom_kill 4\n")
    monkeypatch.setattr(cgroups, "WHOLE_MACHINE", str(path))
    monkeypatch.setattr(cgroups, "_hierarchies", lambda: [])
    return path


def test_without_a_count_of_its_own_the_machine_is_asked(machine: Path, tmp_path: Path) -> None:
    events = cgroups.MemoryEvents(str(tmp_path / "no cgroup"))
    assert events.out_of_memory() is None
    machine.write_text("oom_kill 5\n")
    assert events.out_of_memory() == str(machine)


@pytest.mark.parametrize("name", ["memory.events", "memory.oom_control"])
def test_somebody_elses_kill_is_not_taken_for_its_own(
    machine: Path, tmp_path: Path, name: str
) -> None:
    own = tmp_path / "own" / name
    own.parent.mkdir()
    own.write_text("low 0\noom_kill 0\n")
    events = cgroups.MemoryEvents(str(own.parent))
    machine.write_text("oom_kill 5\n")
    assert events.out_of_memory() is None
    own.write_text("low 0\noom_kill 1\n")
    assert events.out_of_memory() == "its cgroup"
