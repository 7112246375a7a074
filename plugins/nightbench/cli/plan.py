"""validate, plan: show what a run or a night would measure, without access to a node."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say, warn
from nightbench.cli.selection import Chosen, Selection, selecting
from nightbench.core.budget import CaseHistory, NightPlan, NightPlanEntry, duration
from nightbench.core.capabilities import broken, untried_because
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, JobSpec, PlannedPair, Suite
from nightbench.core.run_plan import nodes_of, resolve, zone_of
from nightbench.core.sentences import sentence

app = typer.Typer()


@app.command()
def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files to check. [default: all in dags/ and benchmarks/]"),
    ] = None,
) -> None:
    """Check suites, clusters, framework lines and workloads; print problems with file and line."""
    from nightbench.config.project import validated

    found, wrong = validated(files or ())
    for line in found:
        say(line)
    for line in wrong:
        warn(line)
    if wrong:
        raise typer.Exit(FAILED)


@app.command()
@selecting()
def plan(
    selection: Selection,
    night: Annotated[
        bool,
        typer.Option(
            "--night",
            help="Plan a night: the cases that fit, in their order, and the cases left out.",
        ),
    ] = False,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --night: its time (2026-11-21T22:00).")
    ] = None,
    json: common.JsonOption = False,
) -> None:
    """List the cases of a suite with nodes, build and estimated time; no service is needed."""
    chosen = selection.choose()
    if at is not None and not night:
        raise UserError("--at requires --night")
    if night:
        _show_night(chosen, at, json=json)
    else:
        _show_cases(chosen, json=json)


# --- a run ---------------------------------------------------------------------------------


def _show_cases(chosen: Chosen, *, json: bool) -> None:
    given = (chosen.suite, chosen.cluster, chosen.catalog)
    cases = chosen.suite.cases
    jobs = [resolve(case, *given, "plan") for case in cases]
    unavailable = {case.case_id: why for case in cases if (why := broken(case, *given))}
    untried = {
        case.case_id: why
        for case in cases
        if (why := untried_because(case, chosen.cluster, chosen.catalog, chosen.suite.builds))
    }
    # Cases that are not measured take no time.
    seconds = common.history(chosen.cluster.name) | dict.fromkeys(unavailable, 0.0)
    if json:
        common.print_json(
            [
                {
                    "case_id": job.case.case_id,
                    "cluster": job.cluster,
                    **job.case.axes(),
                    "on": {p.name: p.node for p in job.processes},
                    "build_id": job.build.build_id,
                    "repeats": job.protocol.repeats,
                    "definition_digest": job.definition_digest,
                    "estimate_s": seconds.get(job.case.case_id),
                    "unavailable": unavailable.get(job.case.case_id),
                    "untried": untried.get(job.case.case_id),
                }
                for job in jobs
            ]
        )
        return
    columns = ("case", "processes", "build", "steps", "repeats", "estimate")
    out.print(common.table(columns, (_cells(job, seconds, unavailable) for job in jobs)))
    _say_by_reason("unavailable", unavailable)
    _say_by_reason("untried", untried)
    _say_by_reason("skipped", chosen.suite.skipped)
    estimates = [seconds.get(case.case_id) for case in cases]
    say(_total(estimates, len(unavailable), chosen.cluster))


def _say_by_reason(word: str, reasons: Mapping[str, str]) -> None:
    """Print one line for each reason, with the case or the number of cases."""
    for reason in dict.fromkeys(reasons.values()):
        which = [case_id for case_id, why in reasons.items() if why == reason]
        say(f"{word}: {which[0] if len(which) == 1 else f'{len(which)} cases'}: {reason}")


def _cells(
    job: JobSpec, seconds: Mapping[str, float], unavailable: Mapping[str, str]
) -> tuple[str, ...]:
    case_id, protocol = job.case.case_id, job.protocol
    spread = [
        f"{node.name}: " + " ".join(p.name for p in job.processes if p.node == node.name)
        for node in job.nodes
    ]
    estimate = duration(seconds[case_id]) if case_id in seconds else "-"
    return (
        case_id,
        "\n".join(spread),
        job.build.build_id,
        f"{protocol.warmup_steps}+{protocol.measured_steps}",
        str(protocol.repeats),
        "unavailable" if case_id in unavailable else estimate,
    )


def _total(seconds: Sequence[float | None], unavailable: int, cluster: Cluster) -> str:
    unknown = sum(guess is None for guess in seconds)
    many = cluster.parallel_cases
    at_once = "one after another" if many == 1 else f"at most {many} at once"
    words = f"{len(seconds)} cases on {cluster.name}, {at_once}"
    if unavailable == len(seconds):
        return f"{words}; none of these cases can be measured there"
    if unknown and unknown == len(seconds) - unavailable:
        return f"{words}; no history yet to estimate the time"
    more = f", plus {unknown} cases without a history" if unknown else ""
    return f"{words}; about {duration(sum(filter(None, seconds)))}{more}"


# --- a night -------------------------------------------------------------------------------


def _show_night(chosen: Chosen, at: str | None, *, json: bool) -> None:
    from nightbench.night.planning import plan_night

    suite, cluster = chosen.suite, chosen.cluster
    place = zone_of(suite, cluster)
    past = common.known_case_histories(cluster.name)
    night = plan_night(suite, cluster, chosen.catalog, past, _begin_of(suite, cluster, at, place))
    nodes = {
        case.case_id: [node.name for node in nodes_of(case, suite, cluster, chosen.catalog)]
        for case in suite.cases
    }
    if json:
        common.print_json(
            [
                _document(entry, cluster, nodes, past)
                | {"reference": [_pair(x) for x in night.pairs if x.case_id == entry.case_id]}
                for entry in night.entries
            ]
        )
    else:
        _show(night, past, suite, nodes, place)


def _begin_of(suite: Suite, cluster: Cluster, at: str | None, place: tzinfo) -> datetime:
    """Return the time from which the night is looked for: now, `at`, or by the suite's schedule."""
    if at is None and suite.schedule and not (suite.night.window or cluster.window):
        from croniter import croniter

        # Airflow reads schedules in UTC.
        found: datetime = croniter(suite.schedule, datetime.now(UTC)).get_next(datetime)
        return found
    return datetime.now(UTC) if at is None else common.instant("at", at, place)


def _show(
    night: NightPlan,
    past: Mapping[str, CaseHistory],
    suite: Suite,
    nodes: Mapping[str, list[str]],
    place: tzinfo,
) -> None:
    from nightbench.night.reference_plan import pair_text

    def minute(at: datetime) -> str:
        return f"{at.astimezone(place):%Y-%m-%d %H:%M}"

    rows = [
        (
            minute(entry.start),
            entry.case_id,
            " ".join(nodes[entry.case_id]),
            f"{duration(entry.seconds)}{' (guessed)' if entry.guessed else ''}",
            f"{last.astimezone(place):%Y-%m-%d}"
            if (last := past.get(entry.case_id, CaseHistory()).last)
            else "never",
        )
        for entry in night.entries
        if entry.start is not None
    ]
    if rows:
        columns = (f"begins ({place})", "case", "on", "takes", "last tried")
        out.print(common.table(columns, rows))
    _say_by_reason("left out", {name: sentence(why) for name, why in night.left_out.items()})
    chosen = [pair for pair in night.pairs if pair.left_out is None]
    for pair in chosen:
        say(f"reference: {pair_text(pair)}, {duration(pair.seconds)}")
    for pair in night.pairs:
        if pair.left_out is not None:
            say(f"not compared with its reference build: {pair.case_id}: {sentence(pair.left_out)}")
    if night.pairs:
        cost = duration(sum(pair.seconds for pair in chosen))
        many = len({pair.case_id for pair in night.pairs})
        number = len({pair.case_id for pair in chosen})
        say(f"then compared with a reference build: {number} of {many} cases, about {cost}")
    unavailable = {
        entry.case_id: entry.problem for entry in night.entries if entry.problem is not None
    }
    _say_by_reason("unavailable", unavailable)
    window = night.window
    count = len(night.entries) - len(night.left_out) - len(unavailable)
    words = f"the night begins at {minute(window.start)}; "
    if count:
        words += f"{count} of {len(night.entries)} cases end by {minute(night.end)}"
    else:
        words += f"none of {len(night.entries)} cases fits into the night"
    if window.end is None:
        since = f" (by its schedule, {suite.schedule})" if suite.schedule else ""
        say(f"{words}; no time limit{since}")
    else:
        say(f"{words}; it ends at {minute(window.end)} ({window.why})")


def _pair(pair: PlannedPair) -> dict[str, Any]:
    return {
        "build_id": pair.reference.build_id,
        "rounds": pair.rounds,
        "estimate_s": pair.seconds,
        "is_bridge": pair.is_bridge,
        "left_out": pair.left_out and pair.left_out.to_json(),
    }


def _document(
    entry: NightPlanEntry,
    cluster: Cluster,
    nodes: Mapping[str, list[str]],
    past: Mapping[str, CaseHistory],
) -> dict[str, Any]:
    last = past.get(entry.case_id, CaseHistory()).last
    return {
        "case_id": entry.case_id,
        "cluster": cluster.name,
        "nodes": nodes[entry.case_id],
        "start": entry.start.isoformat() if entry.start else None,
        "estimate_s": entry.seconds,
        "guessed": entry.guessed,
        "last_tried": last.isoformat() if last else None,
        "left_out": entry.left_out and entry.left_out.to_json(),
        "unavailable": entry.problem,
    }
