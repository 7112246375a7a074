"""profile: show where two compared builds spend their time."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common, experiment_common
from nightbench.cli.common import out, say, warn
from nightbench.cli.selection import CasesOption
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError
from nightbench.core.run_plan import new_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer()


@app.command()
@experiment_common.errors_exit_with_2
def profile(
    comparison: Annotated[
        str,
        typer.Argument(
            metavar="COMPARISON",
            help="Id of a comparison of two builds, or of a profile to show again.",
        ),
    ],
    case: CasesOption = None,
    steps: Annotated[int, typer.Option(min=1, max=1000, help="Number of profiled steps.")] = 10,
    html: Annotated[
        Path | None, typer.Option(help="Write tables and flame graphs to this file.")
    ] = None,
    outside_hours: common.OutsideHoursOption = False,
    json: common.JsonOption = False,
) -> int:
    """Launch both builds of a comparison with a profiler, and print operators whose times differ.

    Each trainer runs additional steps under its line's profiler after the measured window. These
    times are no measurements; the warehouse does not store them.

    Exit codes:

    - 0: both builds were profiled.
    - 2: wrong usage, or a build yielded no profile.
    """
    from nightbench.experiments.profiles import saved_profile

    document: Mapping[str, Any] | None = saved_profile(common.spool(), comparison)
    if document is None:
        document = _measure(comparison, case or [], steps, outside_hours=outside_hours, json=json)
    if json:
        common.print_json(document)
    else:
        show(document)
    if html is not None:
        from nightbench.report.profile_page import profile_page

        with replaced_file(html) as new:
            new.write_text(profile_page(document, datetime.now(UTC)), encoding="utf-8")
        warn(f"written: {html}")
    return experiment_common.BAD_USAGE if any(c["why"] for c in document["cases"]) else 0


def _measure(
    comparison: str, cases: list[str], steps: int, *, outside_hours: bool, json: bool
) -> Mapping[str, Any]:
    from nightbench.cli.compare import chosen_of
    from nightbench.core.model.experiments import Experiment, ExperimentKind
    from nightbench.experiments.profiles import request_of, saved_profile

    chosen = chosen_of(request_of(common.spool(), comparison, cases))
    context = experiment_common.context_of(chosen, outside_hours=outside_hours)
    name = new_run_id("profile", datetime.now(UTC))
    asked = {"of": comparison, "cases": cases, "steps": steps}
    where = (chosen.suite.name, chosen.cluster.name)
    experiment = Experiment(name, ExperimentKind.PROFILE, asked, *where, getpass.getuser())
    ended = experiment_common.at_terminal(experiment, context, json=json)
    document = saved_profile(common.spool(), name)
    if document is None:
        raise UserError(f"{name}: {ended.why or 'it was stopped'}")
    return document


def show(document: Mapping[str, Any]) -> None:
    """Print the operators with the largest difference of each case."""
    from nightbench.experiments.profiles import SHOWN

    for case in document["cases"]:
        if case["why"]:
            say(f"{case['case_id']}: {case['why']}")
            continue
        rows = [
            (
                row["name"],
                f"{row['a_calls']:g}",
                f"{row['b_calls']:g}",
                *(_ms(row[key]) for key in ("a_s", "b_s")),
                f"{1e3 * row['difference_s']:+.3f}",
            )
            for row in case["operators"][:SHOWN]
        ]
        columns = ("operator", "A calls", "B calls", "A ms", "B ms", "B - A ms")
        out.print(common.table(columns, rows, title=case["case_id"]))
        ranks = f"{case['ranks']} rank{'s' if case['ranks'] > 1 else ''}"
        say(
            f"{case['profiler']}, mean of {case['steps']} steps of {ranks}, each slowed by the "
            f"profiler: A {_ms(case['a_step_s'])} ms, B {_ms(case['b_step_s'])} ms"
        )
    say(f"A {document['a']}, B {document['b']} on {document['cluster']}; id {document['id']}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"
