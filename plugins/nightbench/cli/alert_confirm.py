"""What `nightbench alert confirm` does: measure the suspect of an alert again, by hand."""

from __future__ import annotations

import asyncio
import getpass
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nightbench.cli import common
from nightbench.cli.ab_view import View
from nightbench.cli.common import INTERRUPTED, err, out
from nightbench.core.errors import UserError
from nightbench.core.model import VerdictKind
from nightbench.experiments.rounds import Side

if TYPE_CHECKING:
    from nightbench.core.run_plan import RunPlan
    from nightbench.experiments.compare import Listener
    from nightbench.experiments.comparisons import ComparisonPlan
    from nightbench.experiments.confirm import Ground
    from nightbench.spool import RunSpool

INCONCLUSIVE = 3


def confirm_alert(alert_id: int, *, outside_hours: bool, json: bool) -> int:
    """Measure an alert's suspect again, or go on with that; the exit code.

    Raises:
        UserError: it is no regression, its run is not in the spool, or nothing can be measured.
    """
    from nightbench.experiments.confirm import Busy, begin, end, measure_again
    from nightbench.experiments.confirmation_outcome import inconclusive
    from nightbench.gang import direct
    from nightbench.warehouse.experiments import NIGHTBENCH

    common.home().make()
    confirmation_id, plan, ground = _ask(alert_id, outside_hours)
    asked = begin(common.open_warehouse, confirmation_id)
    if asked is None:
        raise UserError(f"alert {alert_id} was confirmed by another process just now")
    progress = _Progress(json)
    detail: dict[str, Any] = {}
    work = measure_again(asked, plan, common.spool(), ground, progress.watch)
    try:
        found, detail = asyncio.run(direct.until_done(work, progress.refresh))
    except KeyboardInterrupt:
        err.print(
            "interrupted; its processes on the nodes have been ended. Go on: "
            f"nightbench alert confirm {alert_id}",
            soft_wrap=True,
        )
        return INTERRUPTED
    except Busy as error:
        raise UserError(f"{error}; its outcome will stand at the alert") from None
    except UserError as error:
        if asked.by == NIGHTBENCH:
            raise  # Its own try may fare better, and is given up when its time is over.
        # Nobody else would ever end it, and until then it hides what Nightbench itself has found.
        found = inconclusive(str(error))
    end(common.open_warehouse, asked, found, detail)
    if json:
        said = {"alert_id": alert_id, "run_id": asked.suspect.run_id, **vars(found), **detail}
        common.print_json(said | {"outcome": str(found.outcome)})
    else:
        out.print(
            f"{found.outcome.replace('_', ' ')}: {found.sentence}", markup=False, soft_wrap=True
        )
    return INCONCLUSIVE if found.outcome == "inconclusive" else 0


def _ask(alert_id: int, outside_hours: bool) -> tuple[int, RunPlan, Ground]:
    """The confirmation to measure: one that has not ended, else a new one; by what, and where."""
    from nightbench.night.suspected_regressions import new_confirmation_id, suspected_regression
    from nightbench.spool.plans import read_plan
    from nightbench.warehouse import Reader
    from nightbench.warehouse.experiments import UNDECIDED, ConfirmationRepository

    with closing(common.open_warehouse()) as connection:
        reader, repository = Reader(connection), ConfirmationRepository(connection)
        rows = reader.alerts(states=None, alert_id=alert_id)
        if not rows:
            raise UserError(
                f"There is no alert {alert_id}. `nightbench alert list --all` lists them."
            )
        alert = rows[0]
        if alert["verdict"] != VerdictKind.REGRESSED:
            raise UserError(
                f"alert {alert_id}: found {alert['verdict']}; only a regressed case has a level "
                "that it can be held against"
            )
        run_id = alert["last_run_id"]
        plan = read_plan(common.spool().run(run_id))
        # Before anything is asked for: closed hours must not leave a question behind.
        ground = _ground(plan, outside_hours)
        going = repository.find(run_id=run_id, alert_id=alert_id, states=UNDECIDED)
        if going:
            return int(going[-1]["confirmation_id"]), plan, ground
        suspect = suspected_regression(reader, plan, alert)
        if suspect is None:
            raise UserError(f"alert {alert_id}: run {run_id} has no level for its case")
        made = repository.request(
            alert_id,
            run_id,
            new_confirmation_id(datetime.now(UTC)),
            suspect.to_json(),
            within_s=None,
            by=getpass.getuser(),
        )
        if made is None:
            raise UserError(f"alert {alert_id}: somebody asked for the same just now; try again")
        return made, plan, ground


def _ground(plan: RunPlan, outside_hours: bool) -> Ground:
    from nightbench.experiments.confirm import Ground
    from nightbench.night import night_plan

    chosen = common.choose(plan.run.suite, plan.run.cluster)
    span = None if outside_hours else night_plan.open_now(chosen.cluster, datetime.now(UTC))
    return Ground(
        chosen.suite,
        chosen.cluster,
        chosen.catalog,
        common.reach(chosen.cluster),
        common.shipment(chosen.cluster),
        # A person waits as long as they like; the night's message has its own limit.
        span.end if span else None,
    )


class _Progress:
    """Shows one comparison after the other."""

    def __init__(self, json: bool) -> None:
        self._console = err if json else out
        self._view: View | None = None

    def watch(self, plan: ComparisonPlan, folder: RunSpool) -> Listener:
        self._view = View(self._console, plan, folder)
        a, b = (plan.builds[side].build_id for side in Side)
        job = plan.cases[0].jobs[Side.A]
        what = f"{b} again" if a == b else f"A {a}, B {b}"
        self._console.print(
            f"{plan.comparison_id}: {what}, {plan.rounds} rounds on "
            f"{', '.join(node.name for node in job.nodes)}",
            markup=False,
            soft_wrap=True,
        )
        return self._view.listener()

    def refresh(self) -> None:
        if self._view is not None:
            self._view.refresh()
