"""Expands the blocks of a suite's matrix into cases: the product of each block's axes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nightbench.config.schema import AS_DEVICES, AS_TRAINERS, BlockFile, SuiteFile
from nightbench.config.written_suite import NONE
from nightbench.core.complaints import Key
from nightbench.core.model import SPLIT_AXES, Case, Strategy
from nightbench.core.model.values import FIT

T = TypeVar("T")

_AS_WRITTEN = ("precision", "compiler", "execution", "layout", "compression", "link_bandwidth")


@dataclass(frozen=True)
class WrittenCase:
    """A case, and the block that it is from."""

    case: Case
    key: Key
    block: BlockFile


def expand(
    file: SuiteFile, command_lines: Sequence[str], nodes: int, most: int
) -> list[WrittenCase]:
    """Return the cases of a suite, in the order of the file, as many as `most` at most.

    `command_lines` run its commands. `nodes` are those of the cluster, which `devices: fit` fits
    to.
    """
    found = (
        WrittenCase(case, ("matrix", position), block)
        for position, block in enumerate(file.matrix)
        for case in dict.fromkeys(_cases(block, file.scale, command_lines, nodes))
    )
    return list(itertools.islice(found, most))


def _cases(
    block: BlockFile, scale: str, command_lines: Sequence[str], nodes: int
) -> Iterator[Case]:
    axes: dict[str, Sequence[Any]] = {
        "workload": block.command or block.workload or [],
        "framework": command_lines if block.command else block.frameworks or [],
        "size": list(_sizes(block, nodes)),
        "batch_size_per_device": block.batch_size_per_device,
        **{axis: getattr(block, axis) for axis in (*SPLIT_AXES, *_AS_WRITTEN)},
        "shard_stage": block.shard_stage or (3,),
        "schedule": block.schedule or ("1f1b",),
        "sequence_length": _axis(block.sequence_length),
        "threads": _axis(block.threads),
        "sparsity": [each and round(100 * each, 6) for each in _axis(block.sparsity)],
        "cpus": _axis(block.cpus),
        "memory_mb": [each and max(1, round(each / 1e6)) for each in _axis(block.memory)],
        "data": block.data,
        "scale": block.scale or [scale],
    }
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        if chosen["compression"] == NONE:
            chosen["sparsity"] = None
        if chosen["shard"] == AS_DEVICES:
            together = chosen["tensor"] * chosen["pipeline"]
            chosen["shard"] = max(1, chosen["size"]["trainers"] // together)
        if chosen["shard"] == 1:
            chosen["shard_stage"] = None
        if chosen["pipeline"] == 1:
            chosen["schedule"] = None
        yield Case(strategy=Strategy(block.strategy), **chosen.pop("size"), **chosen)


def _axis(values: Sequence[T] | None) -> list[T | None]:
    """The values of an axis; the default alone if it is not given."""
    return [None] if values is None else list(values)


def _sizes(block: BlockFile, most: int) -> Iterator[dict[str, Any]]:
    if block.strategy != "parameter_server":
        for nodes, devices in block.devices or [(1, 1)]:
            yield {"nodes": nodes, "devices_per_node": devices, "trainers": nodes * devices}
        return
    for pservers, trainers, given, sync in itertools.product(
        block.pservers or [1],
        block.trainers or [],
        _axis(block.devices),
        block.sync or ["sync"],
    ):
        nodes, devices = _fit(trainers, most) if given == FIT else given or (trainers, 1)
        yield {
            "nodes": nodes,
            "devices_per_node": devices,
            "pservers": trainers if pservers == AS_TRAINERS else pservers,
            "trainers": trainers,
            "sync": sync,
        }


def _fit(trainers: int, most: int) -> tuple[int, int]:
    """The nodes for some trainers, at most so many, and the trainers on each."""
    each = -(-trainers // min(trainers, most))
    return -(-trainers // each), each
