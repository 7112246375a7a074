"""The state of each configuration on a cluster: accepted, failed, or to be retested and why."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nightbench.accept.cells import ModeCell, acceptance_suite
from nightbench.checks import checks_digest
from nightbench.config import load_catalog
from nightbench.core.errors import UserError, WarehouseRefused, WarehouseUnavailable
from nightbench.core.model import Accepted, Build, Catalog, Cluster
from nightbench.core.run_plan import build_of
from nightbench.warehouse import opened
from nightbench.warehouse.acceptance import PASSED, AcceptedMode
from nightbench.warehouse.connection import Connect

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModeState:
    """The state of one configuration of a line on a cluster."""

    cell: ModeCell
    build: Build | None = None
    """The build to measure; None if the configuration is skipped."""
    known: AcceptedMode | None = None
    """Its newest result, perhaps with another build."""
    due: str | None = None
    """Why it has to be tried; None if the newest result still holds."""
    waits: str | None = None
    """Why it is not tried: fewer devices failed."""

    @property
    def outcome(self) -> str:
        """`skipped`, `due`, `passed`, `not reported` or `failed`."""
        if self.cell.skipped is not None or self.waits is not None:
            return "skipped"
        return "due" if self.known is None or self.due else self.known.outcome

    @property
    def to_try(self) -> bool:
        """Whether it is tried now: it must be retested, or no node could have its build."""
        tried = self.cell.case is not None and self.waits is None
        return tried and self.outcome in ("due", "skipped")

    @property
    def reason(self) -> str | None:
        """Why it was skipped, must be retested, or did not pass."""
        return (
            self.cell.skipped
            or self.waits
            or self.due
            or (self.known.reason if self.known else None)
        )


def mode_states(
    cells: Sequence[ModeCell],
    known: Sequence[AcceptedMode],
    cluster: Cluster,
    catalog: Catalog,
    *,
    again: datetime | None = None,
) -> list[ModeState]:
    """Return each configuration's state, and why it must be retested: build, driver or checks.

    A failed configuration must be retested once the code has changed, and with `again` each that
    was tried before then. More than two devices wait for the same configuration at fewer.
    """
    suite = acceptance_suite(tuple(cells), cluster, "")
    found = []
    for cell in cells:
        if cell.case is None:
            found.append(ModeState(cell))
            continue
        build = build_of(cell.line, suite, cluster, catalog)
        key = (cell.line, cell.mode, cell.devices)
        of_mode = [each for each in known if (each.line, each.mode, each.devices) == key]
        of_mode.sort(key=lambda each: (each.build_id == build.build_id, each.started_at))
        newest = of_mode[-1] if of_mode else None
        due = _due(newest, build, catalog)
        asked = again is not None and newest is not None and newest.started_at < again
        why = due or ("requested again" if asked else None)
        found.append(ModeState(cell, build, newest, why))
    failed = {
        each.cell.narrower: each.cell
        for each in found
        if each.outcome == "failed" and not each.cell.is_wide
    }
    return [
        dataclasses.replace(each, waits=f"{few.mode} did not pass at {few.devices}")
        if each.cell.is_wide and each.due and (few := failed.get(each.cell.narrower))
        else each
        for each in found
    ]


def _due_now(known: AcceptedMode, cluster: Cluster, catalog: Catalog) -> str | None:
    try:
        build = build_of(known.line, acceptance_suite((), cluster, ""), cluster, catalog)
    except UserError as error:
        return str(error)
    return _due(known, build, catalog)


def _due(known: AcceptedMode | None, build: Build, catalog: Catalog) -> str | None:
    if known is None:
        return "never tried on this cluster"
    if known.build_id != build.build_id:
        return f"build {known.build_id} became {build.build_id}"
    if not known.is_driver_same:
        return f"the driver is no longer {known.driver}"
    if known.checks_digest != checks_digest():
        return "the checks of its last result have changed"
    if known.code_digest == catalog.code_digest:
        return None
    if known.outcome != PASSED:
        return "it did not pass, and the code has changed since then"
    locked = catalog.frameworks[build.line].versions_of(build.variant)
    wanted = [each.split("+")[0] for each in ((build.version,) if build.version else locked)]
    version = (known.framework_version or wanted[-1]).split("+")[0]
    if build.source == "index" and version not in wanted:
        return f"version {version} became {wanted[-1]}"
    return None


def accepting_catalog(connect: Connect) -> Catalog:
    """Return the catalog of today's files; `accepted` reads the warehouse, once for each cluster.

    Without an answer from the warehouse no configuration counts as accepted.
    """
    found: dict[str, Accepted] = {}

    def accepted(cluster: Cluster) -> Accepted:
        if cluster.name not in found:
            try:
                with opened(connect) as warehouse:
                    modes = warehouse.acceptance.modes(cluster.name)
            except (WarehouseUnavailable, WarehouseRefused) as error:
                log.warning("acceptance tests are unknown; configurations stay untried: %s", error)
                modes = []
            found[cluster.name] = accepted_modes(modes, cluster, catalog)
        return found[cluster.name]

    catalog = load_catalog()
    return dataclasses.replace(catalog, accepted=accepted)


def accepted_modes(modes: Sequence[AcceptedMode], cluster: Cluster, catalog: Catalog) -> Accepted:
    """Return accepted configuration -> why it must be retested, also if it failed at one shape."""
    found: dict[tuple[str, str], str | None] = {}
    for each in sorted(modes, key=lambda each: (each.outcome != PASSED, each.started_at)):
        key = each.line, each.mode
        if each.line not in catalog.frameworks:
            continue
        if each.outcome == PASSED:
            due = _due_now(each, cluster, catalog)
            found[key] = due if key not in found else found[key] and due
        elif each.outcome == "failed" and found.get(key, "") is None and _fits(each, cluster):
            build = _due_now(dataclasses.replace(each, outcome=PASSED), cluster, catalog)
            found[key] = None if build else f"it failed at {each.devices}"
    return found


def _fits(mode: AcceptedMode, cluster: Cluster) -> bool:
    return mode.nodes <= len(cluster.nodes) and mode.devices_per_node <= cluster.devices_per_node


def counts(known: Sequence[AcceptedMode], cluster: Cluster, catalog: Catalog) -> dict[str, Any]:
    """Return the counts of tried configurations by outcome, and why some must be retested.

    A configuration and shape that was tried with several builds counts once, by the newest.
    """
    newest = {
        (each.line, each.mode, each.devices): each
        for each in sorted(known, key=lambda each: each.started_at)
        if each.line in catalog.frameworks and _fits(each, cluster)
    }
    due = {key: why for key, each in newest.items() if (why := _due_now(each, cluster, catalog))}
    counts = Counter("due" if key in due else each.outcome for key, each in newest.items())
    last = max(known, key=lambda each: each.started_at)
    return {
        "cluster": cluster.name,
        "passed": counts[PASSED],
        "failed": counts["failed"],
        "not_reported": counts["not reported"],
        "due": counts["due"],
        "reasons": sorted({f"{line}: {why}" for (line, *_), why in due.items()}),
        "last_run_id": last.run_id,
        "last_at": last.started_at,
    }
