"""Checks the cases of a suite against framework lines, workloads and cluster."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nightbench.config.matrix import WrittenCase
from nightbench.config.schema import SuiteFile
from nightbench.core.capabilities import refusal_of
from nightbench.core.complaints import Complaint, Key
from nightbench.core.hours import Hours, ever_overlap
from nightbench.core.model import Build, Catalog, Cluster
from nightbench.core.variants import Refusal, variant_of

MOST_CASES = 2000
_KEYS = {"framework": "frameworks", "nodes": "devices", "devices_per_node": "devices"}


def check_cases(
    cases: Sequence[WrittenCase],
    catalog: Catalog,
    cluster: Cluster,
    builds: Mapping[str, Build],
    complaints: list[Complaint],
    *,
    untried: bool,
) -> dict[str, str]:
    """Return case_id -> why, of the cases that cannot run and may be skipped.

    All others that cannot run are complained of.
    """
    if len(cases) > MOST_CASES:
        message = f"found more than {MOST_CASES} cases in the matrix; expected fewer"
        complaints.append(Complaint(cases[MOST_CASES].key, message))
    first: dict[str, WrittenCase] = {}
    skipped: dict[str, str] = {}
    for written in cases[:MOST_CASES]:
        case, block = written.case, written.block
        before = first.setdefault(case.case_id, written)
        # Two tables may hold the same case; it is measured once.
        if before is not written and not (before.block.tables and block.tables):
            message = f"defines the case {case.case_id} a second time"
            complaints.append(Complaint(written.key, message, first=before.key))
        refusal = refusal_of(case, catalog, cluster, builds, untried=untried)
        if refusal is None:
            continue
        if block.unsupported == "skip":
            skipped[case.case_id] = refusal.message.removeprefix(f"{case.case_id} ")
        else:
            key, *others = _places_of(written, refusal)
            complaints.append(Complaint(key, refusal.message, tuple(others)))
    return skipped


def _places_of(written: WrittenCase, refusal: Refusal) -> list[Key]:
    """Return the keys that a refusal may be about: the item of a list, the list, the suite's."""
    case, block = written.case, written.block
    name = _KEYS.get(refusal.axis, refusal.axis)
    value: Any = getattr(case, refusal.axis, None)
    if name == "devices" and block.devices is None:
        name = "trainers"
    elif name == "devices":
        value = (case.nodes, case.devices_per_node)
    values = getattr(block, name, None)
    key: Key = (*written.key, name)
    item = [(*key, values.index(value))] if isinstance(values, tuple) and value in values else []
    return [*item, key, (name,), written.key]


def check_reference(
    file: SuiteFile,
    cases: Iterable[WrittenCase],
    catalog: Catalog,
    cluster: Cluster,
    builds: Mapping[str, Build],
    reference: Mapping[str, Build],
    complaints: list[Complaint],
) -> None:
    """Complain of reference builds that no case can be measured with."""
    lines = sorted({each.case.framework for each in cases})
    if file.reference and file.policy.metric != "throughput":
        message = f"is for the metric throughput; found policy.metric {file.policy.metric}"
        complaints.append(Complaint(("reference",), message))
    for line, build in reference.items():
        message = ""
        if line not in lines:
            message = f"the suite has no case of {line}; expected one of {', '.join(lines)}"
        elif build == builds.get(line):
            message = "is the build that the nights measure; expected another build"
        else:
            variant = variant_of(catalog.frameworks[line], cluster, {**builds, line: build})
            message = variant.message if isinstance(variant, Refusal) else ""
        if message:
            complaints.append(Complaint(("reference", line), message))


def check_hours(file: SuiteFile, cluster: Cluster, complaints: list[Complaint]) -> None:
    """Complain of a window that the cluster's own hours never overlap."""
    if not (file.night.window and cluster.window):
        return
    hours = [Hours.parse(text) for text in (file.night.window, cluster.window)]
    if not ever_overlap(hours):
        message = (
            f'found "{file.night.window}", which never overlaps the hours of {cluster.name}, '
            f"{cluster.window}"
        )
        complaints.append(Complaint(("night", "window"), message))
