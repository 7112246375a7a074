"""Control measurements of a case's nodes, as one value for each night.

Read only for cases with a change, as evidence that affects no verdict. A warehouse that cannot be
read raises: a change without controls would look as if none were measured.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from nightbench.core.model import Run
from nightbench.warehouse.causes import CauseRepository
from nightbench.warehouse.repository import Row

MOST = 0.75
"""Share of a case's nights with control measurements in which a kind must be present to count."""

Kind = tuple[str, str, str]
"""metric, device, backend: values of one kind are comparable."""


def controls_of_cases(
    repository: CauseRepository, run: Run, case_ids: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return control values (`figures`) by case and run, for the last 180 nights.

    Raises:
        WarehouseUnavailable: the warehouse is away.
    """
    if not case_ids:
        return {}
    measured: dict[str, list[Row]] = defaultdict(list)
    for row in repository.read("night_controls", cluster=run.cluster, until=run.started_at):
        measured[row["run_id"]].append(row)
    if not measured:
        return {}
    nodes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in repository.nodes(case_ids, sorted(measured)):
        nodes[row["case_id"]][row["run_id"]].add(row["node"])
    return {
        case_id: figures({run_id: kinds(measured[run_id], on) for run_id, on in runs.items()})
        for case_id, runs in nodes.items()
    }


def kinds(measured: Sequence[Row], nodes: Collection[str]) -> dict[Kind, float]:
    """Return a night's control values of some nodes together: for each kind the slowest node's.

    A synchronous job is as fast as its slowest node. Kinds that one of the nodes lacks are left
    out, and so is an all-reduce between other nodes.
    """
    found: dict[Kind, list[float]] = defaultdict(list)
    for row in measured:
        kind = (row["metric"], row["device"], row["backend"])
        if "+" in row["node"]:
            if set(row["node"].split("+")) == set(nodes):
                found[kind] = [row["median"]] * len(nodes)
        elif row["node"] in nodes:
            found[kind].append(row["median"])
    return {kind: min(each) for kind, each in found.items() if len(each) == len(nodes)}


def figures(nights: Mapping[str, Mapping[Kind, float]]) -> dict[str, float]:
    """Return one value for each night by run_id: the geometric mean over its kinds.

    Higher is better. The set of kinds must be the same on all nights: only kinds that most nights
    have count, and a night without one of them has no value. Devices of a node (its GPUs) count as
    one, with the slowest.
    """
    known = [night for night in nights.values() if night]
    counts: dict[Kind, int] = defaultdict(int)
    for night in known:
        for kind in night:
            counts[kind] += 1
    kept = [kind for kind, count in sorted(counts.items()) if count >= MOST * len(known)]
    return {
        run_id: _figure({kind: night[kind] for kind in kept})
        for run_id, night in nights.items()
        if kept and all(kind in night for kind in kept)
    }


def _figure(night: Mapping[Kind, float]) -> float:
    slowest: dict[Kind, float] = {}
    for (metric, device, backend), value in night.items():
        work = (metric, device.partition("-")[0], backend)
        slowest[work] = min(value, slowest.get(work, math.inf))
    return math.exp(sum(math.log(value) for value in slowest.values()) / len(slowest))
