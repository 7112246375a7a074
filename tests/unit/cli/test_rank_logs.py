"""`nightbench logs --run`, from the logs that a controller fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightbench.cli import services
from nightbench.core.errors import UserError
from nightbench.core.model import Reason, ReasonCode
from nightbench.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(tmp_path)
    made.run("demo-1").save_run({"run_id": "demo-1", "started_at": "2026-03-01T01:00:00+00:00"})
    store = made.run("demo-1").case("net")
    exited = Reason(ReasonCode.PROCESS_EXITED, "n2", "trainer-1", "code 1").to_json()
    for number, status in ((1, "ok"), (2, "failed"), (3, "ok")):
        reasons = [exited] if status == "failed" else []
        store.save_repeat(number, {"status": status, "reasons": reasons, "faults": []})
        for rank in range(2):
            store.save_log(number, f"trainer-{rank}", f"log {number} {rank}\n".encode())
    made.run("demo-1").case("unbegun").save_job({})
    return made


@pytest.mark.parametrize(
    ("repeat", "rank", "shown"),
    [
        (None, None, "log 2 1\n"),
        (1, None, "log 1 0\n"),
        (None, "0", "log 2 0\n"),
        (3, "trainer-1", "log 3 1\n"),
    ],
)
def test_the_process_that_failed_is_shown_unless_another_is_named(
    spool: Spool, capsys, repeat: int | None, rank: str | None, shown: str
) -> None:
    services.show_rank_log(spool, "demo-1", "net", repeat, rank)
    said = capsys.readouterr()
    assert said.out == shown
    assert str(spool.root) in said.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("demo-2", None, None, None), 'run: found "demo-2"; .*/runs holds demo-1'),
        (("demo-1", "nets", None, None), 'case: found "nets"; .*/cases holds net, unbegun'),
        (("demo-1", "net", 4, None), 'repeat: found "4"; .* holds 1, 2, 3'),
        (("demo-1", "net", 1, "2"), 'rank: found "2"; repeat 1 holds trainer-0, trainer-1'),
        (
            ("demo-1", "unbegun", None, None),
            "unbegun has no log in .*: no repeat of the case has ended",
        ),
    ],
)
def test_what_is_not_there_is_answered_with_what_is(spool: Spool, given, said: str) -> None:
    with pytest.raises(UserError, match=said):
        services.show_rank_log(spool, *given)


def test_without_a_case_all_logs_are_listed(spool: Spool, capsys) -> None:
    services.show_rank_log(spool, "demo-1", None, None, None)
    said = capsys.readouterr().out
    assert "net: repeat 2 (failed): trainer-0, trainer-1" in said
    assert "unbegun: no repeat has ended" in said
    services.list_logged_runs(spool)
    assert "newest first: demo-1" in capsys.readouterr().out
