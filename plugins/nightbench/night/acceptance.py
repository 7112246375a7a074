"""The acceptance of a cluster: which modes of the lines are due there, and how each stands."""

import dataclasses
import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from nightbench.core.acceptance import ModeCell, acceptance_suite
from nightbench.core.errors import UserError
from nightbench.core.model import Accepted, Build, Catalog, Cluster
from nightbench.core.run_plan import build_of
from nightbench.warehouse import Warehouse, WarehouseRefused, WarehouseUnavailable
from nightbench.warehouse.acceptance import PASSED, AcceptedMode
from nightbench.warehouse.connection import Connect

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModeState:
    """How one mode of a line stands on a cluster."""

    cell: ModeCell
    build: Build | None = None
    """What would be run; None where the mode is skipped."""
    known: AcceptedMode | None = None
    """Its newest result, perhaps with another build."""
    due: str | None = None
    """Why it has to be tried; None where the newest result still holds."""

    @property
    def outcome(self) -> str:
        """skipped, due, passed, not told or failed."""
        if self.cell.skipped is not None:
            return "skipped"
        return "due" if self.known is None or self.due else self.known.outcome

    @property
    def to_try(self) -> bool:
        """Whether it is tried now: it is due, or no node could have the build the last time."""
        return self.cell.case is not None and self.outcome in ("due", "skipped")

    @property
    def reason(self) -> str | None:
        """Why it was skipped, is due, or did not pass."""
        return self.cell.skipped or self.due or (self.known.reason if self.known else None)


def mode_states(
    cells: Sequence[ModeCell],
    known: Sequence[AcceptedMode],
    cluster: Cluster,
    catalog: Catalog,
    *,
    again: bool = False,
) -> list[ModeState]:
    """Say of each mode whether it is due: never tried, or with another build or driver.

    What failed is due again once the code has changed; with `again` everything is.
    """
    suite = acceptance_suite(tuple(cells), cluster, "")
    found = []
    for cell in cells:
        if cell.case is None:
            found.append(ModeState(cell))
            continue
        build = build_of(cell.line, suite, cluster, catalog)
        of_mode = [each for each in known if (each.line, each.mode) == (cell.line, cell.mode)]
        of_mode.sort(key=lambda each: (each.build_id == build.build_id, each.started_at))
        newest = of_mode[-1] if of_mode else None
        why = "asked for again" if again else _due(newest, build, catalog)
        found.append(ModeState(cell, build, newest, why))
    return found


def _due_now(known: AcceptedMode, cluster: Cluster, catalog: Catalog) -> str | None:
    try:
        build = build_of(known.line, acceptance_suite((), cluster, ""), cluster, catalog)
    except UserError as error:
        return str(error)
    return _due(known, build, catalog)


def _due(known: AcceptedMode | None, build: Build, catalog: Catalog) -> str | None:
    if known is None:
        return "never tried here"
    if known.build_id != build.build_id:
        return f"build {known.build_id} became {build.build_id}"
    if not known.is_driver_same:
        return f"another driver than {known.driver}"
    if known.code_digest == catalog.code_digest:
        return None
    if known.outcome != PASSED:
        return "it did not pass, and the code has changed"
    wanted = build.version or catalog.frameworks[build.line].version
    version = (known.framework_version or wanted).split("+")[0]
    if build.source == "index" and version != wanted.split("+")[0]:
        return f"version {version} became {wanted}"
    return None


def accepting(catalog: Catalog, connect: Connect) -> Catalog:
    """The catalog that knows what acceptances have shown; the warehouse is asked when it matters.

    Where it does not answer, no mode counts as accepted.
    """
    found: dict[str, Accepted] = {}

    def accepted(cluster: Cluster) -> Accepted:
        if cluster.name not in found:
            try:
                with closing(connect()) as connection:
                    modes = Warehouse(connection).acceptance.modes(cluster.name)
            except (WarehouseUnavailable, WarehouseRefused) as error:
                log.warning("untried modes stay untried, acceptances are unknown: %s", error)
                modes = []
            found[cluster.name] = {
                (each.line, each.mode): _due_now(each, cluster, catalog)
                for each in sorted(modes, key=lambda each: each.started_at)
                if each.outcome == PASSED and each.line in catalog.frameworks
            }
        return found[cluster.name]

    return dataclasses.replace(catalog, accepted=accepted)
