"""What the command line and the DAGs have in common: from a suite to verdicts.

The packages that do the work do not know each other; they are put together here, and nowhere
else. The way of a run: `make_plan`, `store_plan`, then somebody measures (`direct`, or the DAG),
`mark_ended`, `ingest_run`, `judge_run`. Nothing here imports Airflow.
"""

from nightbench.pipeline.bundles import build_bundle
from nightbench.pipeline.ingest import IngestResult, ingest_run, ingest_waiting, waiting_runs
from nightbench.pipeline.judge import JudgeResult, judge_run
from nightbench.pipeline.nights import next_night, open_now, plan_night
from nightbench.pipeline.past import past_of
from nightbench.pipeline.plans import (
    RunPlan,
    make_plan,
    mark_ended,
    new_run_id,
    read_plan,
    store_plan,
)
from nightbench.pipeline.telling import tell_leftovers, tell_run

__all__ = [
    "IngestResult",
    "JudgeResult",
    "RunPlan",
    "build_bundle",
    "ingest_run",
    "ingest_waiting",
    "judge_run",
    "make_plan",
    "mark_ended",
    "new_run_id",
    "next_night",
    "open_now",
    "past_of",
    "plan_night",
    "read_plan",
    "store_plan",
    "tell_leftovers",
    "tell_run",
    "waiting_runs",
]
