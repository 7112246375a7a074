"""What ab, bisect, drill and `alert confirm` share: arguments, contexts, interruption, cancel."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from nightbench.cli import common
from nightbench.cli.common import INTERRUPTED, err, out
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.alerts.plot_png import Picture
    from nightbench.experiments.engine import ExperimentContext
    from nightbench.spool import RunSpool

BAD_USAGE = 2

CANCEL_REASON = "cancelled by the user"
CANCEL_TIMEOUT_S = 60.0
"""An environment that is being made is no launch that could be ended; the user is told of it."""
CANCEL_RETRY_S = 5.0

T = TypeVar("T")


# --- arguments ----------------------------------------------------------------------------


def pinned(text: str) -> str:
    """Return a build in words that mean the same in any folder.

    Raises:
        UserError: the text is no build.
    """
    from nightbench.config import parse_build

    build = parse_build(text)
    return f"{build.line}={build.location}" if build.source == "wheel" else text


def absolute(name: str) -> str:
    """Return a suite or cluster in words that mean the same in any folder."""
    if name.endswith((".yaml", ".yml")):
        return str(Path(name).expanduser().absolute())
    return name


def fraction(text: str, option: str) -> float:
    """Return the fraction that an option says as a percentage, `1%`.

    Raises:
        UserError: it is no percentage.
    """
    from nightbench.config import values

    try:
        return values.percentage(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None


def suite_of(cases: Sequence[str]) -> str:
    """Return the one suite that holds all the cases.

    Raises:
        UserError: none does, or several do.
    """
    from nightbench.config import find_suites, load_suite, locations

    if not cases:
        raise UserError("cases: found none; expected --case SLUG or --suite NAME")
    catalog = common.catalog()
    holding = []
    for name, path in sorted(find_suites(locations.dags_folder()).items()):
        have = {case.case_id for case in load_suite(path, catalog).cases}
        if have >= set(cases):
            holding.append(name)
    if len(holding) != 1:
        found = f"{len(holding)} suites ({', '.join(holding)})" if holding else "no suite"
        raise UserError(f"case: found {found} with {', '.join(cases)}; say which by --suite")
    return holding[0]


# --- measuring ----------------------------------------------------------------------------


def context_of(chosen: common.Chosen, *, outside_hours: bool) -> ExperimentContext:
    """Return the context of an experiment that is measured from now on.

    Raises:
        UserError: the cluster's hours do not hold now, or its Connection is missing.
    """
    from nightbench.experiments.engine import experiment_context

    common.home().make()
    return experiment_context(
        chosen.suite,
        chosen.cluster,
        chosen.catalog,
        common.reach(chosen.cluster),
        common.open_warehouse,
        common.spool(),
        outside_hours=outside_hours,
    )


def sayer(json: bool) -> Callable[[str], None]:
    """Return what prints a line of progress: to standard error where JSON goes to the output."""
    console = err if json else out

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    return say


def measure(work: Coroutine[Any, Any, T], refresh: Callable[[], None], name: str, resume: str) -> T:
    """Return what a measurement returns.

    Args:
        work: measures, and ends its gang on the nodes when it is cancelled.
        refresh: called every second, to show progress.
        name: of the experiment.
        resume: the command that goes on with it.

    Raises:
        typer.Exit: Ctrl-C or SIGTERM ended it, and the user has been told how to go on.
    """
    from nightbench.gang import case_runner

    try:
        return asyncio.run(case_runner.run_interruptible(work, refresh))
    except KeyboardInterrupt:
        raise interrupted(name, resume) from None


def interrupted(name: str, resume: str) -> typer.Exit:
    """Tell the user how to go on, and return the exit."""
    err.print(
        f"{name} was interrupted; its processes on the nodes have been ended. Go on: {resume}",
        markup=False,
        soft_wrap=True,
    )
    return typer.Exit(INTERRUPTED)


def exit_code(work: Callable[[], int]) -> int:
    """Return the exit code of a command of which 1 is an answer: every error is 2.

    An exception of ours is printed, and must not be taken for a slower build either.
    """
    try:
        return work()
    except typer.Exit as done:
        return done.exit_code
    except UserError as error:
        err.print(f"error: {error}", markup=False, soft_wrap=True)
    except Exception:  # A defect: shown whole, and never the exit code of an answer.
        traceback.print_exc()
    return BAD_USAGE


def post(channels: Sequence[str], title: str, body: str, pictures: Sequence[Picture] = ()) -> None:
    """Send a message; the user is told of each channel, and a failure changes no exit code."""
    from nightbench.alerts import send

    for delivery in send(channels, title, body, common.channel_url, pictures):
        told = "was told" if delivery.sent else f"took no message: {delivery.error}"
        err.print(f"{delivery.channel} {told}", markup=False, soft_wrap=True)


# --- cancelling ---------------------------------------------------------------------------


def cancel_experiment(name: str) -> bool:
    """End an experiment and its processes on the nodes; False where none has this id.

    One that had ended is left as it is, and the user is told so.

    Raises:
        UserError: it is a drill, a node does not answer (its gang ends with its lease), or the
            process that measures goes on all the same.
    """
    spool = common.spool()

    def named(folders: Sequence[RunSpool]) -> RunSpool | None:
        # By comparing names: the id of a DAG run is no name of a folder.
        return next((each for each in folders if each.run_id == name), None)

    if (comparison := named(spool.comparisons())) is not None:
        _cancel_comparison(comparison)
    elif (bisect := named(spool.bisects())) is not None:
        _cancel_bisect(bisect)
    elif named(spool.drills()) is not None:
        raise UserError(
            f"{name} is a drill; press Ctrl-C where it runs. It ends its processes on the nodes, "
            f"and `nightbench drill --resume {name}` goes on"
        )
    else:
        return False
    return True


def _cancel_comparison(folder: RunSpool) -> None:
    from nightbench import gang
    from nightbench.cli.ab import chosen_of
    from nightbench.experiments.ab import AbRequest
    from nightbench.experiments.comparison import saved_result
    from nightbench.experiments.experiment_spool import (
        COMPARISON,
        read_request,
        request_cancel,
    )

    document = read_request(folder, COMPARISON)
    request, name = document["request"], folder.run_id
    result = saved_result(folder)
    if result is not None and (result["complete"] or not folder.is_steered()):
        _say_ended(name, f"ended at {result['ended_at']}")
        return
    if "alert_id" in request:
        cluster = common.cluster_of(document["cluster"])
        resume = f"nightbench alert confirm {request['alert_id']}"
    else:
        cluster = chosen_of(AbRequest(**request)).cluster
        resume = f"nightbench ab --resume {name}"
    request_cancel(folder, CANCEL_REASON)
    asyncio.run(gang.cancel_run(name, cluster, common.reach(cluster), CANCEL_REASON))
    _say_cancelled(name, cluster.name, resume)


def _cancel_bisect(folder: RunSpool) -> None:
    from nightbench import gang
    from nightbench.experiments import bisect_request
    from nightbench.experiments.experiment_spool import request_cancel
    from nightbench.experiments.reporting import BisectReporter

    request, name = bisect_request.request_of(folder), folder.run_id
    document = folder.run() or {}
    if document["state"] != "running":
        stopped = document["stopped"]
        _say_ended(
            name, f"been stopped ({stopped})" if stopped else f"ended at {document['ended_at']}"
        )
        return
    cluster = common.choose(request.suite, request.cluster).cluster
    targets, spool = common.reach(cluster), common.spool()
    request_cancel(folder, CANCEL_REASON)
    limit = time.monotonic() + CANCEL_TIMEOUT_S
    while True:
        # Anew each time: its process may have begun another launch, or another step.
        for step in bisect_request.read_steps(folder):
            if step["status"] == "running":
                comparison_id = step["comparison_id"]
                request_cancel(spool.comparison(comparison_id), CANCEL_REASON)
                asyncio.run(gang.cancel_run(comparison_id, cluster, targets, CANCEL_REASON))
        if _released(folder):
            break
        if time.monotonic() > limit:
            raise UserError(
                f"{name}: its process goes on, perhaps because it makes an environment; what ran "
                f"on {cluster.name} has been ended. Try again, or press Ctrl-C where it runs"
            )
    if (folder.run() or {})["state"] == "running":
        # Its process was killed before and cannot say so.
        bisect_request.mark_stopped(folder, CANCEL_REASON)
        bisect_request.load_bisect(
            common.open_warehouse, folder, BisectReporter(common.say).not_loaded
        )
    _say_cancelled(name, cluster.name, f"nightbench bisect --resume {name}")


def _released(folder: RunSpool) -> bool:
    """Wait a little for the process that measures to end; False where it goes on."""
    limit = time.monotonic() + CANCEL_RETRY_S
    while folder.is_steered():
        if time.monotonic() > limit:
            return False
        time.sleep(0.1)
    return True


def _say_ended(name: str, how: str) -> None:
    common.say(f"{name} had {how}: nothing was changed")


def _say_cancelled(name: str, cluster: str, resume: str) -> None:
    common.say(f"{name} is cancelled: no process of it is left on {cluster}. Go on: {resume}")
