"""`nightbench ab`: one comparison of two builds that a person names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.config import parse_build
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Suite
from nightbench.experiments.comparison import ComparisonContext, ComparisonPlan, plan_comparison
from nightbench.nodes import NodesOut


@dataclass(frozen=True)
class AbRequest:
    """What is compared; kept in the spool, so that it can be resumed."""

    a: str
    """A build as `LINE=VERSION`, `LINE=FILE.whl` or `LINE=/PREFIX`."""
    b: str
    suite: str
    """By name, or the absolute path of its file."""
    rounds: int
    min_effect: float
    seed: int
    cases: Sequence[str] = ()
    """Slugs; all cases of the line where there are none."""
    cluster: str | None = None
    """By name or path; the suite's own where None."""
    frameworks: str = ""
    workloads: str = ""
    strategies: str = ""
    scale: str | None = None
    outside_hours: bool = False

    @classmethod
    def of(cls, comparison_id: str, asked: Mapping[str, Any]) -> AbRequest:
        """Return what a person asked for, from the `request` that is kept in the spool.

        Raises:
            UserError: nobody did: it confirms an alert, or belongs to a night.
        """
        if "alert_id" in asked:
            raise UserError(
                f"{comparison_id} measures an alert's regression again: nightbench alert confirm "
                f"{asked['alert_id']}"
            )
        if "run_id" in asked:
            raise UserError(
                f"{comparison_id} measures {asked['case_id']} beside a reference build for "
                f"{asked['run_id']}, which goes on with it itself"
            )
        return cls(**asked)


def plan_ab(
    request: AbRequest,
    comparison_id: str,
    context: ComparisonContext,
    left_out: NodesOut | None = None,
) -> ComparisonPlan:
    """Return the plan of a request.

    Raises:
        UserError: a build or a case is not there, or the cluster cannot run it.
    """
    return plan_comparison(
        dataclasses.replace(context, suite=with_cases(context.suite, request.cases)),
        (parse_build(request.a), parse_build(request.b)),
        comparison_id=comparison_id,
        rounds=request.rounds,
        min_effect=request.min_effect,
        seed=request.seed,
        left_out=left_out,
    )


def with_cases(suite: Suite, case_ids: Sequence[str]) -> Suite:
    """Return the suite with only the named cases, in its order; all where none is named.

    Raises:
        UserError: the suite has no such case.
    """
    known = {case.case_id: case for case in suite.cases}
    for case_id in case_ids:
        if case_id not in known:
            raise UserError(f"case: {one_of(case_id, known)}; of suite {suite.name}")
    if not case_ids:
        return suite
    chosen = tuple(case for case_id, case in known.items() if case_id in case_ids)
    return dataclasses.replace(suite, cases=chosen)
