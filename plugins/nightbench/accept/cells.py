"""The cells that try every configuration of a line on a cluster, for `nightbench accept`. Pure.

A configuration is a strategy with the other axes that a line's `framework.json`
declares: precision, compiler, execution and layout in every combination, and each compression,
synchronisation and stage of sharding.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from nightbench.core.capabilities import refusal_of
from nightbench.core.errors import UserError
from nightbench.core.model import (
    LINE_AXES,
    SEVERAL,
    Case,
    Catalog,
    Cluster,
    FrameworkInfo,
    Protocol,
    Strategy,
    Suite,
)
from nightbench.core.placement import place
from nightbench.core.variants import Refusal, builds_of, variant_of, without_image

SUITE = "acceptance"
SCALE = "smoke"
PROTOCOL = Protocol(warmup_steps=2, measured_steps=20, repeats=1, min_seconds=1.0)
"""A second at least: twenty steps of a GPU last less than what opening a window takes may spoil."""
BATCH = 8
FEW = 2
"""Numbers of devices at which a configuration is tried, before all of a node and of two nodes."""

_COMBINED = ("precision", "compiler", "execution", "layout")
_OF_ANY = ("recompute", "state_precision", "micro_batches")
_OF_SEVERAL = ("compression", "tensor", "context", "expert")


@dataclass(frozen=True)
class ModeCell:
    """One configuration of a line, and the case that tries it."""

    line: str
    mode: str
    """See `Case.mode`; of a configuration that cannot be tried, perhaps one value of an axis."""
    case: Case | None = None
    skipped: str | None = None
    """Why no case tries it there."""

    @property
    def devices(self) -> str | None:
        """Its shape, nodes x devices of each; None without a case."""
        return f"{self.case.nodes}x{self.case.devices_per_node}" if self.case else None

    @property
    def is_wide(self) -> bool:
        """Whether it has more than two devices: tried once the configuration passed at fewer."""
        return self.case is not None and self.case.trainers > FEW

    @property
    def narrower(self) -> tuple[str, str]:
        """Line and configuration without its strategy: equal for one device and for several."""
        return self.line, self.mode.partition(" ")[2]


def mode_cells(line: str, cluster: Cluster, catalog: Catalog) -> tuple[ModeCell, ...]:
    """Return the configurations of a line: at one device, two, all of a node and of two nodes.

    Each is tried by the smallest workload that has it, at scale smoke, preferably one that states
    its first losses, and whose loss is proved to decrease.
    """
    (framework,) = builds_of(catalog.frameworks[line], cluster, {})
    runs = framework.devices.get(cluster.device_kind, f"no support for {cluster.device_kind}")
    variant = variant_of(framework, cluster, {})
    why = runs if isinstance(runs, str) else without_image(line, cluster)
    if why is None and isinstance(variant, Refusal):
        why = variant.message
    if why is not None:
        return (ModeCell(line, "any", skipped=why),)
    impossible = [
        ModeCell(line, f"{axis} {value}", skipped=why)
        for axis, values in framework.axes.items()
        if axis in LINE_AXES and axis != "data"
        for value, support in values.items()
        for why in [support.get(cluster.device_kind, "")]
        if isinstance(why, str)
    ]
    tried = [_tried_somewhere(each, cluster, catalog) for each in _modes(framework, cluster)]
    wider = [wide for cell in tried for wide in _wider(cell, cluster, catalog)]
    return (*tried, *wider, *impossible)


def acceptance_suite(cells: tuple[ModeCell, ...], cluster: Cluster, owner: str) -> Suite:
    """The suite that tries the configurations of some cells."""
    cases = tuple(cell.case for cell in cells if cell.case is not None)
    return Suite(SUITE, owner, cluster.name, cases, PROTOCOL, untried=True, scale=SCALE)


def _modes(framework: FrameworkInfo, cluster: Cluster) -> Iterator[Case]:

    def values(axis: str) -> list[str]:
        known = framework.axes.get(axis, {})
        default = LINE_AXES[axis]
        every = dict.fromkeys(known if default is None else (str(default), *known))
        return [
            value
            for value in every
            if value not in known or not isinstance(known[value].get(cluster.device_kind, ""), str)
        ]

    strategies = values("strategy")
    two = (1, 2) if cluster.devices_per_node > 1 else (2, 1)
    own: dict[str, Any] = {axis: values(axis)[0] for axis in _COMBINED}
    pair = Case("", framework.line, Strategy.COLLECTIVE, *two, trainers=2, **own)
    single = replace(pair, strategy=Strategy.SINGLE, nodes=1, devices_per_node=1, trainers=1)
    if two[0] > len(cluster.nodes):
        strategies = [each for each in strategies if each == Strategy.SINGLE]
    for combined in itertools.product(*map(values, _COMBINED)):
        more: dict[str, Any] = dict(zip(_COMBINED, combined, strict=True))
        if Strategy.SINGLE in strategies:
            yield replace(single, **more)
        if Strategy.COLLECTIVE in strategies:
            yield replace(pair, **more)
    # With one device, test what needs no second device.
    lone = Strategy.COLLECTIVE not in strategies
    few = single if lone else pair
    if not lone:
        for stage in values("shard_stage"):
            yield replace(pair, shard=2, shard_stage=int(stage))
        for schedule in values("schedule"):
            yield replace(pair, pipeline=2, schedule=schedule, micro_batches=2)
    if not lone or Strategy.SINGLE in strategies:
        for axis in _OF_ANY if lone else (*_OF_ANY, *_OF_SEVERAL):
            for value in values(axis)[1:]:
                mode: dict[str, Any] = {axis: 2 if value == SEVERAL else value}
                yield replace(few, **mode)
        for what in values("tuning")[1:]:
            beside = itertools.product(*map(values, _COMBINED[:3]))
            tuned = [
                replace(few, tuning=what, precision=precision, compiler=compiler, execution=how)
                for precision, compiler, how in beside
            ]
            yield next((x for x in tuned if not _clash(x, framework, cluster)), tuned[0])
    if Strategy.PARAMETER_SERVER in strategies:
        served = replace(pair, strategy=Strategy.PARAMETER_SERVER, pservers=1)
        for sync in values("sync"):
            yield replace(served, sync=sync)


def _clash(mode: Case, framework: FrameworkInfo, cluster: Cluster) -> bool:
    """Whether a line refuses a tuning with the mode's precision, compiler or execution."""
    found = {axis: getattr(mode, axis) for axis in ("tuning", *_COMBINED[:3])}
    found["device"] = cluster.device_kind
    return any(
        all(found.get(key) in values for key, values in each.when.items())
        for each in framework.refused_combinations
    )


def _wider(cell: ModeCell, cluster: Cluster, catalog: Catalog) -> Iterator[ModeCell]:
    """Yield a mode also at all devices of a node and of two nodes, if these are more devices."""
    if cell.case is None or cell.case.strategy is not Strategy.COLLECTIVE:
        return
    for nodes in (1, 2):
        devices = nodes * cluster.devices_per_node
        if devices > cell.case.trainers and nodes <= len(cluster.nodes):
            case = replace(
                cell.case,
                nodes=nodes,
                devices_per_node=cluster.devices_per_node,
                trainers=devices,
            )
            why = _refusal(case, cluster, catalog)
            yield ModeCell(cell.line, cell.mode, case if why is None else None, why)


def _refusal(case: Case, cluster: Cluster, catalog: Catalog) -> str | None:
    refusal = refusal_of(case, catalog, cluster, {}, untried=True)
    if refusal is not None:
        return refusal.message
    try:
        place(case, cluster, catalog.roles_of(case))
    except UserError as error:
        return str(error)
    return None


def _tried_somewhere(mode: Case, cluster: Cluster, catalog: Catalog) -> ModeCell:
    """Return a mode at few devices or, if it is refused there, at all devices of two nodes."""
    found = _tried(mode, cluster, catalog)
    if found.case is not None or mode.trainers == 1 or len(cluster.nodes) < 2:
        return found
    devices = cluster.devices_per_node
    all_of_two = replace(mode, nodes=2, devices_per_node=devices, trainers=2 * devices)
    wide = _tried(all_of_two, cluster, catalog)
    return wide if wide.case is not None else found


def _tried(mode: Case, cluster: Cluster, catalog: Catalog) -> ModeCell:
    """Return a mode with the smallest workload that supports it, or why none does."""
    line = mode.framework
    named = replace(mode, scale=SCALE, batch_size_per_device=BATCH)
    workloads = [w for w in catalog.workloads.values() if line in w.frameworks]
    scales = {w.name: w.scales.get(SCALE, {}) for w in workloads}
    large = float("inf")
    served = mode.strategy is Strategy.PARAMETER_SERVER
    order = sorted(
        scales,
        key=lambda name: (
            # Splittable workloads first: if none has enough layers, the reason names one of them.
            mode.pipeline > 1 and not catalog.workloads[name].pipeline,
            catalog.workloads[name].losses is None,
            # Prefer a workload for one and for several devices, so that scaling is computed.
            not served and Strategy.COLLECTIVE not in catalog.workloads[name].strategies,
            not scales[name].get("converges", False),
            scales[name].get("parameters", large),
            name,
        ),
    )
    why: str | None = None
    for name in order:
        case = replace(named, workload=name)
        refused = _refusal(case, cluster, catalog)
        if refused is None:
            return ModeCell(line, case.mode, case)
        why = why or refused
    return ModeCell(line, mode.mode, skipped=why or f"no workload is written for {line}")
