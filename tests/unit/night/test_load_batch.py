"""What a run's results are checked against when they are loaded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from nightbench.accept.cells import acceptance_suite, mode_cells
from nightbench.checks import CheckContext
from nightbench.config import load_catalog
from nightbench.core.model import Cluster, Node, RunKind
from nightbench.core.run_plan import CasePlan, make_plan
from nightbench.night.load_batch import check_context
from nightbench.spool import Spool
from nightbench.spool.plans import read_plan, store_plan

PAIR = Cluster("pair", (Node("n1", "n1", "ssh"), Node("n2", "n2", "ssh")), shared=True)


def test_a_loaded_case_is_checked_as_one_that_was_just_measured(tmp_path: Path) -> None:
    catalog = load_catalog()
    suite = acceptance_suite(mode_cells("pytorch", PAIR, catalog), PAIR, "me")
    planned = make_plan(
        suite,
        PAIR,
        catalog,
        run_kind=RunKind.ACCEPTANCE,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    jobs = {job.case.case_id: job for job in planned.jobs}
    plan = read_plan(store_plan(planned, Spool(tmp_path)))
    contexts = [check_context(plan, case, ()) for case in plan.cases]
    fresh = [
        CasePlan.of(jobs[each.planned.case.case_id], catalog.workloads[each.planned.case.workload])
        for each in plan.cases
    ]
    assert contexts == [
        CheckContext.of(each, suite.protocol, PAIR, acceptance=True) for each in fresh
    ]
    assert any(context.losses for context in contexts), "else nothing is shown of them"
    assert any(context.has_experts for context in contexts), "else nothing is shown of them"
