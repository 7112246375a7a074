"""What is asked of a bisect, its tests, and how it stands: in the spool and in the warehouse.

    <spool>/bisects/<id>/run.json           what was asked for, and how it stands
    <spool>/bisects/<id>/steps/<n>.json     the n-th test: two versions, its comparison, its result
    <spool>/comparisons/<id>/               the launches of a test

`bisecting` measures. Which version comes next follows from the tests that have ended.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from packaging.version import InvalidVersion, Version

from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.experiments import bisection
from nightbench.experiments.bisection import Kind, Result, State, Step
from nightbench.spool import RunSpool, Spool, read_json, utc_now, write_json
from nightbench.warehouse import Reader
from nightbench.warehouse.experiments import BisectRepository

SCHEMA = "nightbench.bisect/1"
DEFAULT_ROUNDS = 5
"""Of each test: the fall that is looked for is known by then, and half of it decides."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """What a bisect is to find, and what it may take."""

    case_id: str
    suite: str
    """As the caller names it: of a file, or its path."""
    cluster: str | None
    line: str
    versions: tuple[str, ...]
    """Ascending: the good one first, the bad one last."""
    budget_s: float
    """Of measuring, over all calls."""
    most_tests: int
    rounds: int = DEFAULT_ROUNDS
    min_effect: float = 0.01
    """The smallest fall that is looked for; half of the fall that is found decides later."""
    seed: int = 1
    alert_id: int | None = None
    outside_hours: bool = False
    left_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Node -> why nothing is measured on it."""


def new_bisect_id(now: datetime) -> str:
    """Readable, sortable and unique: `bisect-20261121T010203-9f3a`."""
    return f"bisect-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def between(known: Sequence[str], good: str, bad: str) -> tuple[str, ...]:
    """The versions from good to bad, ascending, both of them among them.

    Final versions only, unless good or bad is none itself: whoever measures nightly builds looks
    for a nightly build.

    Raises:
        UserError: a text is no version, or bad is not newer than good.
    """
    low, high = _version(good), _version(bad)
    if low >= high:
        raise UserError(f"versions: found good {good}, bad {bad}; expected the bad one to be newer")
    early = low.is_prerelease or high.is_prerelease
    inner = {_version(each): each for each in known}
    chosen = [
        text
        for version, text in sorted(inner.items())
        # 2.13.0+cpu is a build of 2.13.0, not a version after it.
        if low < version < high
        and version.public not in (low.public, high.public)
        and (early or not version.is_prerelease)
    ]
    return (good, *chosen, bad)


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        raise UserError(f'version: found "{text}"; expected one such as 2.13.0') from None


def begin(spool: Spool, bisect_id: str, asked: Asked, requested_by: str) -> RunSpool:
    """Write what is asked for before anything is measured; the same may be written again.

    A bisect that is there goes on with what it was begun with; only its budget, its hours and its
    alert are taken anew.

    Raises:
        UserError: one of this name looks for something else.
    """
    folder = spool.bisect(bisect_id)
    known = folder.run()
    wanted = dataclasses.asdict(asked) | {"versions": list(asked.versions)}
    if known is not None:
        was = known["asked"]
        free = ("budget_s", "most_tests", "outside_hours", "left_out")
        differs = sorted(k for k in wanted if k not in free and wanted[k] != was.get(k))
        if differs:
            raise UserError(
                f"{bisect_id}: {', '.join(differs)} changed since it was begun; begin a new one"
            )
        # The nodes stay those of the first test: results of others would not be comparable.
        wanted["left_out"] = was["left_out"]
        folder.save_run({**known, "asked": wanted})
        return folder
    folder.save_run(
        {
            "schema": SCHEMA,
            "bisect_id": bisect_id,
            "run_kind": str(RunKind.CONFIRM),
            "started_at": utc_now(),
            "requested_by": requested_by,
            "asked": wanted,
            "state": "running",
            "stopped": None,
            "ended_at": None,
        }
    )
    return folder


def known_of(folder: RunSpool) -> tuple[Document, Asked]:
    """run.json, and what it says was asked for.

    Raises:
        UserError: there is no such bisect.
    """
    document = folder.run()
    if document is None or document.get("schema") != SCHEMA:
        parent = folder.folder.parent
        have = sorted(path.name for path in parent.iterdir()) if parent.exists() else []
        raise UserError(
            f'bisect: found "{folder.run_id}", which is not in the spool; it has '
            f"{', '.join(have) or 'none'}"
        )
    asked = document["asked"]
    return document, Asked(**{**asked, "versions": tuple(asked["versions"])})


def steps_of(folder: RunSpool) -> list[Document]:
    """The tests that were begun, in their order."""
    found: list[Document] = []
    while (document := read_json(_step_file(folder, len(found) + 1))) is not None:
        found.append(document)
    return found


def save_step(folder: RunSpool, step: Mapping[str, Any]) -> None:
    """Keep a test as it stands."""
    write_json(_step_file(folder, step["number"]), step)


def _step_file(folder: RunSpool, number: int) -> Any:
    return folder.folder / "steps" / f"{number:03d}.json"


def state_of(folder: RunSpool) -> State:
    """Where a bisect stands."""
    asked = known_of(folder)[1]
    ended = [
        Step(Kind(s["kind"]), s["version"], s["against"], Result(s["result"]))
        for s in steps_of(folder)
        if s["status"] == "ended"
    ]
    return bisection.state(asked.versions, ended)


def document_of(folder: RunSpool) -> Document:
    """All that a bisect says so far: what `--json` prints and the warehouse keeps."""
    document, asked = known_of(folder)
    steps, state = steps_of(folder), state_of(folder)
    checks = [s["ratio"] for s in steps if s["kind"] == Kind.CHECK and s["status"] == "ended"]
    stopped = document["stopped"]
    return {
        "schema": SCHEMA,
        "bisect_id": folder.run_id,
        "alert_id": asked.alert_id,
        "case_id": asked.case_id,
        "cluster": document.get("cluster", asked.cluster),
        "suite": document.get("suite", asked.suite),
        "line": asked.line,
        "good": asked.versions[0],
        "bad": asked.versions[-1],
        "versions": list(asked.versions),
        "state": document["state"],
        "stopped": stopped,
        "outcome": str(state.end) if document["state"] == "ended" else None,
        "last_good": state.last_good,
        "first_bad": state.first_bad,
        "suspects": list(state.suspects),
        "sentence": f"{stopped}; {state.sentence}" if stopped else state.sentence,
        "notes": list(state.notes),
        "ratio": checks[-1] if checks else None,
        "budget_s": asked.budget_s,
        "spent_s": math.fsum(s["spent_s"] for s in steps),
        "requested_by": document["requested_by"],
        "started_at": document["started_at"],
        "ended_at": document["ended_at"],
        "steps": steps,
    }


# --- from and to the warehouse --------------------------------------------------------------


@dataclass(frozen=True)
class Suspect:
    """What an alert and the nights before it say of a change of version."""

    case_id: str
    cluster: str
    suite: str
    good: str
    bad: str


def of_alert(
    reader: Reader,
    bisects: BisectRepository,
    alert_id: int,
    good: str | None = None,
    bad: str | None = None,
) -> Suspect:
    """The versions on both sides of the change before an alert was opened.

    Args:
        reader: reads the alert.
        bisects: knows the change.
        alert_id: the alert.
        good: a version to take instead.
        bad: another one; where both are given no version needs to have changed.

    Raises:
        UserError: there is no such alert, or a version is wanted and none changed before it.
    """
    rows = reader.alerts(states=None, alert_id=alert_id)
    if not rows:
        raise UserError(f"There is no alert {alert_id}. `nightbench alert list --all` lists them.")
    case_id, cluster = rows[0]["case_id"], rows[0]["cluster"]
    if good and bad:
        run = reader.run(rows[0]["opened_run_id"])
        assert run is not None  # no alert without its run
        return Suspect(case_id, cluster, run.suite, good, bad)
    change = bisects.version_change(alert_id)
    if change is None:
        raise UserError(
            f"alert {alert_id}: the framework's version is the same on all nights of {case_id} on "
            f"{cluster} before it, so no version can be to blame; name both versions, good and bad "
            "(--good and --bad)"
        )
    old, new = (change[side].partition("+")[0] for side in ("good", "bad"))
    return Suspect(case_id, cluster, change["suite"], good or old, bad or new)


def store(bisects: BisectRepository, document: Document) -> None:
    """Keep a bisect as it stands; the same may be stored again.

    Raises:
        WarehouseUnavailable: the warehouse is away; the spool has all of it.
    """
    bisects.store(document, document["steps"])
