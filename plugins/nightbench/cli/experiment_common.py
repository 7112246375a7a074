"""Shared parts of the experiments' commands: arguments, contexts, measuring, interruption."""

from __future__ import annotations

import asyncio
import functools
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.alerts import send
from nightbench.cli import common
from nightbench.cli.common import INTERRUPTED, say, warn
from nightbench.cli.selection import Chosen
from nightbench.config import find_suites, locations, parse_build
from nightbench.config.suites import readable_suites
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.alerts.plot_png import Picture
    from nightbench.core.model.experiments import Experiment
    from nightbench.experiments.engine import ExperimentContext
    from nightbench.experiments.record import Ended

BAD_USAGE = 2

SeedOption = Annotated[int, typer.Option(help="Seed of the random order of the builds.")]
ResumeOption = Annotated[
    str | None, typer.Option(metavar="ID", help="Id of an interrupted experiment to continue.")
]
ChannelOption = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Channel for the result: Apprise URL or apprise://conn/ID."),
]


# --- arguments ----------------------------------------------------------------------------


def pinned(text: str) -> str:
    """Return a build with absolute paths.

    Raises: UserError: the text is not a build.
    """
    build = parse_build(text)
    return f"{build.line}={build.location}" if build.source == "wheel" else text


def absolute(name: str) -> str:
    """Return the absolute path of a suite's or cluster's file; a name stays as it is."""
    if name.endswith((".yaml", ".yml")):
        return str(locations.written_path(name))
    return name


def value_of(read: Callable[[str], float], text: str, option: str) -> float:
    """Return what an option says, by a function of `core.model.values`.

    Raises:
        UserError: `read` cannot read the text.
    """
    try:
        return read(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


def suite_of(cases: Sequence[str]) -> str:
    """Return the one suite that has all the cases.

    Raises:
        UserError: no suite has all the cases, or several suites have them.
    """
    if not cases:
        raise UserError("--case: found none; expected --case SLUG or --suite NAME")
    suites = readable_suites(find_suites(locations.dags_folder()), common.catalog())
    wanted = set(cases)
    holding = [name for name, suite in suites.items() if {x.case_id for x in suite.cases} >= wanted]
    if len(holding) != 1:
        found = f"{len(holding)} suites ({', '.join(holding)})" if holding else "no suite"
        raise UserError(f"case: found {found} with {', '.join(cases)}; name the suite with --suite")
    return holding[0]


# --- measuring ----------------------------------------------------------------------------


def context_of(chosen: Chosen, *, outside_hours: bool) -> ExperimentContext:
    """Return the context of an experiment that is measured from now on.

    Raises: UserError: now is outside the cluster's hours, or a Connection is missing.
    """
    from nightbench.experiments.engine import experiment_context

    common.home().make()
    targets, connect = common.targets(chosen.cluster), common.open_warehouse
    return experiment_context(
        chosen.suite, chosen.cluster, chosen.catalog, targets, connect, outside_hours=outside_hours
    )


def sayer(json: bool) -> Callable[[str], None]:
    """Return the function that prints progress: to standard error if the output is JSON."""
    return warn if json else say


def at_terminal(experiment: Experiment, context: ExperimentContext, *, json: bool) -> Ended:
    """Measure an experiment, record it in the warehouse if there is one, and return its end.

    Raises:
        typer.Exit: Ctrl-C or SIGTERM ended it.
        UserError: the experiment cannot be measured.
    """
    from nightbench.core.model.experiments import NIGHTBENCH
    from nightbench.experiments.engine import Turn
    from nightbench.experiments.measuring import MEASURES, failed, resume_command
    from nightbench.experiments.record import Ended, ExperimentRecord
    from nightbench.experiments.reporting import ComparisonReporter
    from nightbench.gang import case_runner

    reporter = ComparisonReporter(sayer(json))
    record = ExperimentRecord(experiment, common.open_warehouse, reporter.say)
    record.begin()
    # An experiment that a night requested goes back to the queue.
    given_up = "queued" if experiment.requested_by == NIGHTBENCH else ""
    work = MEASURES[experiment.kind](Turn(record, common.spool(), context, reporter))
    resume = resume_command(experiment.kind, experiment.name, experiment.request)
    try:
        ended = asyncio.run(case_runner.run_interruptible(work, reporter.refresh))
    except KeyboardInterrupt:
        record.leave(Ended(given_up or "cancelled", "interrupted at its terminal"))
        raise interrupted(experiment.name, resume) from None
    except UserError as error:
        record.leave(Ended(given_up, str(error)) if given_up else failed(experiment, error))
        raise
    record.leave(ended)
    return ended


def interrupted(name: str, resume: str) -> typer.Exit:
    """Print how to continue, and return the exit."""
    warn(f"{name} was interrupted; its processes on the nodes have been ended. Continue: {resume}")
    return typer.Exit(INTERRUPTED)


def errors_exit_with_2(command: Callable[..., int]) -> Callable[..., None]:
    """Make a command whose exit code 1 is an answer: every error exits with code 2.

    Nightbench's own exceptions are printed, and do not count as a slower build either.
    """

    @functools.wraps(command)
    def called(*selection: Any, **given: Any) -> None:
        code = BAD_USAGE
        try:
            code = command(*selection, **given)
        except typer.Exit:
            raise
        except UserError as error:
            warn(f"error: {error}")
        except Exception:  # A defect: print the traceback; the exit code is not that of a verdict.
            traceback.print_exc()
        raise typer.Exit(code)

    return called


def post(channels: Sequence[str], title: str, body: str, pictures: Sequence[Picture] = ()) -> None:
    """Send a message and print the result of each channel; a failure changes no exit code."""
    for delivery in send(channels, title, body, common.channel_url, pictures):
        told = "received the message" if delivery.sent else f"failed: {delivery.error}"
        warn(f"{delivery.channel} {told}")
