"""The files of a run are loaded, judged and reported in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from tests.sql.given import Given
from tests.sql.nights import Inbox
from tests.sql.spooled import plan, spooled

from nightbench.core.model import Case, Reason, Run
from nightbench.night.ingest import ingest_run
from nightbench.night.judge import JudgeResult, judge_run
from nightbench.spool import Spool
from nightbench.spool.plans import store_plan
from nightbench.warehouse import Warehouse, connect
from nightbench.warehouse.connection import Connection

if TYPE_CHECKING:
    from tests.sql.conftest import Database


@dataclass
class Pipeline:
    """A spool, a warehouse and a webhook that hears of the alerts."""

    spool: Spool
    warehouse: Database
    loader: Warehouse
    given: Given
    inbox: Inbox

    def connect(self) -> Connection:
        return connect(self.warehouse.loader)

    def measure(self, run: Run, came: Mapping[Case, float | Reason | None], **more: Any) -> Run:
        """Files of a run, as `spooled` makes them, and their load."""
        spooled(self.spool, run, came, **{"channels": [self.inbox.url], **more})
        self.ingest(run)
        return run

    def planned(self, run: Run, cases: Sequence[Case]) -> Run:
        """A plan alone: what came is loaded without files."""
        store_plan(plan(run, cases, [self.inbox.url]), self.spool)
        return run

    def ingest(self, run: Run) -> str:
        return ingest_run(self.spool, run.run_id, self.connect)

    def judge(self, run: Run, **more: Any) -> JudgeResult:
        return judge_run(self.spool, run.run_id, self.connect, **more)

    def sql(self, statement: str, *values: Any) -> None:
        """As the owner of everything: what another part of Nightbench would have stored."""
        with closing(psycopg2.connect(self.warehouse.owner)) as owner:
            owner.cursor().execute(statement, values)
            owner.commit()
