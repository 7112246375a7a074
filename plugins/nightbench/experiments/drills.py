"""Drills of the detector: a real case, measured night after night, of which the last are slowed.

    <spool>/drills/<id>/run.json        what the drill is, the sleep that it adds, what came out
    <spool>/drills/<id>/runs/<night>/   each night as every run has it

The nights are measured one right after another and dated a day apart (`drilling`), and judged as
real ones are (`drilled`). The definition of what is measured names the drill, and its runs lie
beside those of the spool: no ingest finds them, no history and no baseline knows of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, Cluster, RunKind, Suite, digest_of
from nightbench.core.run_plan import make_plan
from nightbench.detection.changes import FEWEST
from nightbench.spool import RunSpool, Spool, utc_now

SCHEMA = "nightbench.drill/1"
Document = dict[str, Any]


@dataclass(frozen=True)
class Drill:
    """What is drilled."""

    drill_id: str
    suite: Suite
    """With the one case."""
    cluster: Cluster
    catalog: Catalog
    nights: int
    size: float
    """Fraction of the throughput that the slowdown takes."""
    began: datetime
    before: int
    """Nights that are not slowed: what the detector knows of the series then."""

    @property
    def case_id(self) -> str:
        """The case."""
        return self.suite.cases[0].case_id

    @property
    def first_slow(self) -> int:
        """Number of the first slowed night, from 1."""
        return self.before + 1

    def at(self, night: int) -> datetime:
        """When a night is said to be: the last one is today's."""
        return self.began - timedelta(days=self.nights - night)


def needed(suite: Suite) -> int:
    """Nights that have to lie before a verdict."""
    return max(suite.policy.min_history, FEWEST - 1)


def new_drill_id(now: datetime) -> str:
    """Readable, sortable and unique: `drill-20261121T010203-9f3a`."""
    return f"drill-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{token_hex(2)}"


def begin(spool: Spool, drill: Drill, asked: Mapping[str, Any]) -> RunSpool:
    """Write what is drilled; the same may be written again.

    Raises:
        UserError: there are too few nights to find anything, or the case has changed since the
            drill was begun.
    """
    if drill.before < needed(drill.suite):
        raise UserError(
            f"before: found {drill.before}; expected at least {needed(drill.suite)}, without which "
            f"suite {drill.suite.name} has no verdicts"
        )
    if drill.nights < drill.first_slow + 1:
        raise UserError(
            f"nights: found {drill.nights}; expected at least {drill.first_slow + 1}: "
            f"{drill.before} before the slowdown, and two to see a change"
        )
    folder = folder_of(spool, drill.drill_id)
    known = folder.run() or {}
    identity = {"code": drill.catalog.code_digest, "definition": definition_of(drill)}
    if known and known["identity"] != identity:
        raise UserError(
            f"{drill.drill_id}: the case or the benchmark code has changed since it was begun; "
            "begin a new one"
        )
    folder.save_run(
        {
            "started_at": utc_now(),
            "sleep_s": None,
            "found": None,
            **known,
            "schema": SCHEMA,
            "drill_id": drill.drill_id,
            "run_kind": str(RunKind.DRILL),
            "began": drill.began.isoformat(),
            "asked": dict(asked),
            "identity": identity,
        }
    )
    return folder


def folder_of(spool: Spool, drill_id: str) -> RunSpool:
    """The files of a drill; nothing is created."""
    return spool.drill(drill_id)


def known_of(folder: RunSpool) -> Document:
    """What was asked for.

    Raises:
        UserError: there is no such drill.
    """
    document = folder.run()
    if document is None or document.get("schema") != SCHEMA:
        raise UserError(f'drill: found "{folder.run_id}", which is not in the spool')
    return document


def definition_of(drill: Drill) -> str:
    """Digest of what is measured: the same for all nights of a drill, and for nothing else."""
    job = make_plan(
        suite_of(drill), drill.cluster, drill.catalog, run_kind=RunKind.DRILL, run_id=drill.drill_id
    ).jobs[0]
    return digest_of({"drill": drill.drill_id, "of": job.definition_digest})


def suite_of(drill: Drill) -> Suite:
    """The suite that its nights are planned by: nobody is told."""
    return dataclasses.replace(drill.suite, name=f"drill-{drill.suite.name}", alerts=())


def nights_of(spool: Spool, drill: Drill) -> Spool:
    """The spool that its nights lie in."""
    return Spool(folder_of(spool, drill.drill_id).folder)


def run_id_of(drill: Drill, number: int) -> str:
    """The run of a night."""
    return f"{drill.drill_id}-n{number:02d}"
