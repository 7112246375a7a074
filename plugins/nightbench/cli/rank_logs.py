"""Logs of the ranks of a run, which the controller fetched into the spool with each repeat."""

from collections.abc import Iterable

from nightbench.cli.common import say, warn
from nightbench.core.errors import UserError
from nightbench.spool import CaseStore, RunSpool, Spool

MOST_RUNS = 10
"""Runs that a list names, the newest first."""


def show(
    spool: Spool, run_id: str, case_id: str | None, number: int | None, rank: str | None
) -> None:
    """Print the log of one process, or list what there is where no case is given.

    Raises:
        UserError: there is no such run, case, repeat or process; the message lists those there are.
    """
    run = _run(spool, run_id)
    if case_id is None:
        _list_cases(run)
        return
    known = run.case_ids()
    if case_id not in known:
        raise _absent("case", case_id, f"{run.folder}/cases", known)
    store = run.latest(case_id)
    numbers = store.repeats() if store else []
    if store is None or not numbers:
        raise UserError(f"{case_id} has no log in {run.folder}: no repeat of it has ended there")
    if number is not None and number not in numbers:
        raise _absent("repeat", str(number), str(store.folder), map(str, numbers))
    chosen = number or _last_failed(store, numbers)
    logs = store.logs(chosen)
    if not logs:
        raise UserError(
            f"repeat {chosen} of {case_id} has no log in {store.folder}: its processes wrote "
            "nothing, were not started, or their node could not be reached when it ended. "
            f"Repeats with logs: {', '.join(str(n) for n in numbers if store.logs(n)) or 'none'}"
        )
    process = _process(store, chosen, sorted(logs), rank)
    others = ", ".join(name for name in sorted(logs) if name != process) or "none"
    warn(
        f"{process} of repeat {chosen}, {logs[process]} (other processes: {others}; repeats: "
        f"{', '.join(map(str, numbers))})"
    )
    say(logs[process].read_bytes().decode(errors="replace").rstrip("\n"))


def list_runs(spool: Spool) -> None:
    """Print the newest runs whose ranks have logs."""
    say(f"Runs in {spool.root}, newest first: {', '.join(_newest(spool)) or 'none yet'}")
    say("Logs of ranks: nightbench logs --run RUN [--case CASE] [--repeat N] [--rank R]")


def _run(spool: Spool, run_id: str) -> RunSpool:
    for run in (spool.run(run_id), spool.comparison(run_id)):
        if run.folder.exists():
            return run
    raise _absent("run", run_id, f"{spool.root}/runs", _newest(spool))


def _newest(spool: Spool) -> list[str]:
    return [run.run_id for run in spool.runs()][: -MOST_RUNS - 1 : -1]


def _list_cases(run: RunSpool) -> None:
    say(f"Logs in {run.folder}; show one with --case CASE [--repeat N] [--rank R]:")
    for case_id in run.case_ids():
        store = run.latest(case_id)
        numbers = store.repeats() if store else []
        if store is None or not numbers:
            say(f"  {case_id}: no repeat has ended")
        for number in numbers:
            status = (store.repeat(number) or {}).get("status") if store else None
            logs = ", ".join(sorted(store.logs(number))) if store else ""
            say(f"  {case_id}: repeat {number} ({status}): {logs or 'no log'}")


def _last_failed(store: CaseStore, numbers: list[int]) -> int:
    failed = [
        n for n in numbers if (store.repeat(n) or {}).get("status") not in ("ok", "disturbed")
    ]
    with_logs = [n for n in failed if store.logs(n)]
    return (with_logs or failed or numbers)[-1]


def _process(store: CaseStore, number: int, names: list[str], rank: str | None) -> str:
    if rank is not None:
        wanted = f"trainer-{rank}" if rank.isdigit() else rank
        if wanted not in names:
            raise _absent("rank", rank, f"repeat {number}", names)
        return wanted
    reasons = (store.repeat(number) or {}).get("reasons") or []
    blamed = [reason["subject"] for reason in reasons if reason.get("subject") in names]
    trainers = [name for name in names if name.startswith("trainer-")]
    return (blamed or trainers or names)[0]


def _absent(what: str, found: str, where: str, known: Iterable[str]) -> UserError:
    return UserError(f'{what}: found "{found}"; {where} holds {", ".join(known) or "none"}')
