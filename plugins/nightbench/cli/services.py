"""up, down, status, logs, airflow: manage the control plane on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import FAILED, JsonOption, out, say, warn
from nightbench.cli.db import BackupOption
from nightbench.config.control_plane import ControlPlane, control_plane, log_of
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.spool import CaseStore, RunSpool, Spool

app = typer.Typer()

MOST_RUNS = 10
"""Largest number of runs in a list."""


@app.command()
def up(backup: BackupOption = True) -> None:
    """Start PostgreSQL, Airflow and the local nodes; running services are not restarted."""
    from nightbench.local import lifecycle

    for line in lifecycle.up(common.home(), backup=backup):
        say(line)
    common.show_access()


@app.command()
def down() -> None:
    """Stop all processes that `up` started."""
    from nightbench.local import lifecycle

    for line in lifecycle.down(common.home()):
        say(line)


@app.command()
def status(json: JsonOption = False) -> None:
    """Show the state of each service.

    For a team's Airflow, the command shows the report of its API server, without addresses and
    logs.

    Exit codes:

    - 0: all services run.
    - 1: a service does not run.
    """
    from nightbench.local import deployment

    if control_plane() is ControlPlane.TEAM:
        raise typer.Exit(_team_status(json=json))
    services = deployment.status(common.home())
    if json:
        common.print_json([{**vars(service), "log": str(service.log)} for service in services])
    else:
        rows = (
            (
                each.name,
                Text(each.state, style="green" if each.state == "running" else "red"),
                str(each.pid or "-"),
                each.address or "-",
                (each.started_at or "-").partition("+")[0].replace("T", " "),
            )
            for each in services
        )
        out.print(common.table(("service", "state", "pid", "address", "since (UTC)"), rows))
        say(f"logs:        {common.home().logs}   (or: nightbench logs SERVICE)")
        if any(each.state == "running" for each in services):
            common.show_access()
    common.warn_unscheduled()
    if any(each.state != "running" for each in services):
        raise typer.Exit(FAILED)


def _team_status(*, json: bool) -> int:
    from nightbench.cli.dag_run import team_address
    from nightbench.local.airflow_api import AirflowApi, AirflowUnavailable

    # The health check is public: a login is not needed.
    address = team_address()
    try:
        found = {"api-server": "healthy"} | AirflowApi(address, "", "", trust_env=True).health()
    except AirflowUnavailable:
        found = {"api-server": "does not answer"}
    # Airflow reports what it does not run, such as a triggerer that was never started, as None.
    rows = [(name.replace("_", "-"), state) for name, state in found.items()]
    if json:
        common.print_json([{"name": name, "state": state} for name, state in rows])
    else:
        out.print(common.table(("service", "state"), rows))
        say(f"Airflow UI:  {address}")
        say("PostgreSQL, Connections and project: nightbench check")
    return FAILED if any(state != "healthy" for _, state in rows) else 0


@app.command()
def logs(
    service: Annotated[
        str | None,
        typer.Argument(
            help="postgres, local-cluster, api-server, scheduler, dag-processor, triggerer, "
            "`watchdog-a`, `watchdog-b`."
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Also print later lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Lines to show.")] = 100,
    run: Annotated[
        str | None, typer.Option("--run", "-r", help="Run or comparison whose logs to show.")
    ] = None,
    case: Annotated[str | None, typer.Option(help="Case of the run in --run.")] = None,
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Number of the repeat. [default: the last failed one]")
    ] = None,
    rank: Annotated[
        str | None,
        typer.Option(help="Trainer's number, or process name. [default: the failed process]"),
    ] = None,
) -> None:
    """Show the end of a service's log or, with --run, the last 256 kB of a rank's log."""
    from nightbench.local import logfiles

    if run is not None:
        if service is not None:
            raise UserError(f'found both "{service}" and --run; expected a service or a run')
        show_rank_log(common.spool(), run, case, repeat, rank)
        return
    given = {"--case": case, "--repeat": repeat, "--rank": rank}
    for name, value in given.items():
        if value is not None:
            raise UserError(f"{name} requires --run")
    if control_plane() is ControlPlane.TEAM:
        if service is not None:
            raise UserError(f"A team's Airflow stores its own logs: {log_of(service)}")
        list_logged_runs(common.spool())
        return
    if service is None:
        say(f"Services in {common.home().logs}: {', '.join(logfiles.names(common.home()))}")
        list_logged_runs(common.spool())
        return
    logfiles.show(common.home(), service, lines, follow)


@app.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "help_option_names": [],
    },
)
def airflow(context: typer.Context) -> None:
    """Run an `airflow` command on this machine's Airflow, e.g. `nightbench airflow dags list`.

    For a team's Airflow, the command calls `airflow` with the configuration of this terminal.
    """
    from nightbench.local import lifecycle

    lifecycle.run_airflow(common.home(), context.args)


# --- logs of ranks, which the controller fetched into the spool with each repeat --------------


def show_rank_log(
    spool: Spool, run_id: str, case_id: str | None, number: int | None, rank: str | None
) -> None:
    """Print the log of one process, or list all logs if no case is given.

    Raises: UserError: there is no such run, case, repeat or process; the message lists the existing
    ones.
    """
    run = _logged_run(spool, run_id)
    if case_id is None:
        _list_cases(run)
        return
    known = run.case_ids()
    if case_id not in known:
        raise _absent("case", case_id, f"{run.folder}/cases", known)
    store = run.latest(case_id)
    numbers = store.repeats() if store else []
    if store is None or not numbers:
        raise UserError(f"{case_id} has no log in {run.folder}: no repeat of the case has ended")
    if number is not None and number not in numbers:
        raise _absent("repeat", str(number), str(store.folder), map(str, numbers))
    chosen = number or _last_failed(store, numbers)
    logs = store.logs(chosen)
    if not logs:
        raise UserError(
            f"repeat {chosen} of {case_id} has no log in {store.folder}: its processes wrote "
            "nothing or were not started, or their node was not reachable at the end. Repeats with "
            f"logs: {', '.join(str(n) for n in numbers if store.logs(n)) or 'none'}"
        )
    process = _process(store, chosen, sorted(logs), rank)
    others = ", ".join(name for name in sorted(logs) if name != process) or "none"
    warn(
        f"{process} of repeat {chosen}, {logs[process]} (other processes: {others}; repeats: "
        f"{', '.join(map(str, numbers))})"
    )
    say(logs[process].read_bytes().decode(errors="replace").rstrip("\n"))


def list_logged_runs(spool: Spool) -> None:
    """Print the newest runs that have logs of ranks."""
    say(f"Runs in {spool.root}, newest first: {', '.join(_newest(spool)) or 'none yet'}")
    say("Logs of ranks: nightbench logs --run RUN [--case CASE] [--repeat N] [--rank R]")


def _logged_run(spool: Spool, run_id: str) -> RunSpool:
    for run in (spool.run(run_id), spool.comparison(run_id)):
        if run.folder.exists():
            return run
    raise _absent("run", run_id, f"{spool.root}/runs", _newest(spool))


def _newest(spool: Spool) -> list[str]:
    return [run.run_id for run in spool.runs()][: -MOST_RUNS - 1 : -1]


def _list_cases(run: RunSpool) -> None:
    say(f"Logs in {run.folder}; show a log with --case CASE [--repeat N] [--rank R]:")
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
