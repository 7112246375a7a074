"""A suite's matrix becomes cases: the product of each block's axes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from nightbench.config.scales import own_scale
from nightbench.config.schema import AS_DEVICES, AS_TRAINERS, BlockFile, SuiteFile
from nightbench.config.source import Document, Key
from nightbench.config.validate import fields_of, validate
from nightbench.config.values import FIT
from nightbench.core.model import SPLIT_AXES, Case, Strategy

T = TypeVar("T")

_MOST_CASES = 2000
NONE = "none"
"""The compression of a case that has none, and therefore no sparsity."""
_PS_ONLY = ("pservers", "trainers", "sync")
_AS_WRITTEN = ("precision", "compiler", "execution", "layout", "compression", "link_bandwidth")


@dataclass(frozen=True)
class WrittenCase:
    """A case, the block that it is from, and what the block says of it beside its axes."""

    case: Case
    key: Key
    priority: int
    tables: tuple[str, ...] = ()
    skip: bool = False
    """Whether it is left out where it cannot run, instead of being refused."""


def read_cases(
    document: Document,
    file: SuiteFile | None,
    context: dict[str, object],
    nodes: int | None = None,
) -> Iterator[WrittenCase]:
    """Expand every block that is in order, also where the rest of the file is not.

    `nodes` are those of the cluster, which `devices: fit` fits to.
    """
    blocks = document.data.get("matrix")
    scale = own_scale(document)
    made = 0
    for position in range(len(blocks) if isinstance(blocks, list) else 0):
        key: Key = ("matrix", position)
        block = file.matrix[position] if file else validate(BlockFile, document, key, context)
        if block is None:
            continue
        block = _with_lines(block, context, document, key)
        if block is None:
            continue
        for case in expand(block, scale, document, key, nodes):
            made += 1
            if made > _MOST_CASES:
                message = f"the matrix makes more than {_MOST_CASES} cases; expected fewer"
                document.complain(key, message)
                return
            yield WrittenCase(case, key, block.priority, block.tables, block.unsupported == "skip")


def _with_lines(
    block: BlockFile,
    context: dict[str, object],
    document: Document,
    key: Key,
) -> BlockFile | None:
    """The block with its workloads and lines: those of a command, which names neither."""
    given = {name for name in ("workload", "frameworks") if getattr(block, name) is not None}
    if block.command is None:
        for name in sorted({"workload", "frameworks"} - given):
            document.complain_of_missing((*key, name), fields_of(BlockFile)[name].description)
        return block if len(given) == 2 else None
    for name in sorted(given):
        message = "is for workloads of `benchmarks`; found it with `command`"
        document.complain((*key, name), message)
    lines = context["command_lines"]
    return block.model_copy(update={"workload": block.command, "frameworks": lines})


def expand(
    block: BlockFile, scale: str, document: Document, key: Key, nodes: int | None
) -> Iterator[Case]:
    """Make the cases of a block: the product of its axes, in the order of the file's keys."""
    strategy = Strategy(block.strategy)
    sizes = list(_sizes(block, strategy, document, key, nodes))
    axes: dict[str, Sequence[Any]] = {
        "workload": block.workload or [],
        "framework": block.frameworks or [],
        "size": sizes,
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
    if block.sparsity is not None and block.compression == (NONE,):
        message = "is for a `compression`; found none"
        document.complain((*key, "sparsity"), message)
    if block.shard_stage is not None and block.shard == (1,):
        document.complain((*key, "shard_stage"), "is for a `shard`; found none")
    if block.schedule is not None and block.pipeline == (1,):
        document.complain((*key, "schedule"), "is for a `pipeline`; found none")
    made: set[Case] = set()
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
        case = Case(strategy=strategy, **chosen.pop("size"), **chosen)
        if case not in made:
            yield case
        made.add(case)


def _axis(values: Sequence[T] | None) -> list[T | None]:
    """The values of an axis; the default alone where it is not given."""
    return [None] if values is None else list(values)


def _sizes(
    block: BlockFile, strategy: Strategy, document: Document, key: Key, most: int | None
) -> Iterator[dict[str, Any]]:
    """Numbers of nodes, devices and processes, and the updates of parameter servers."""
    if strategy is not Strategy.PARAMETER_SERVER:
        for name in _PS_ONLY:
            if getattr(block, name) is not None:
                message = f"is for parameter_server only; found it with {strategy}"
                document.complain((*key, name), message)
        for shape in block.devices or [(1, 1)]:
            if shape == FIT:
                message = f"{FIT} is for parameter_server only; found it with {strategy}"
                document.complain((*key, "devices"), message)
                continue
            nodes, devices = shape
            if strategy is Strategy.SINGLE and (nodes, devices) != (1, 1):
                message = f'found "{nodes}x{devices}" with single; expected 1x1, or collective'
                document.complain((*key, "devices"), message)
            yield {"nodes": nodes, "devices_per_node": devices, "trainers": nodes * devices}
        return
    if block.trainers is None:
        meaning = "numbers of trainers, for parameter_server"
        document.complain_of_missing((*key, "trainers"), meaning)
        return
    for pservers, trainers, given, sync in itertools.product(
        block.pservers or [1], block.trainers, _axis(block.devices), block.sync or ["sync"]
    ):
        nodes, devices = _fit(trainers, most) if given == FIT else given or (trainers, 1)
        if trainers > nodes * devices:
            message = f"found {trainers}; expected no more than the devices of {nodes}x{devices}"
            document.complain((*key, "trainers"), message)
        yield {
            "nodes": nodes,
            "devices_per_node": devices,
            "pservers": trainers if pservers == AS_TRAINERS else pservers,
            "trainers": trainers,
            "sync": sync,
        }


def _fit(trainers: int, most: int | None) -> tuple[int, int]:
    """The nodes for some trainers, at most so many, and the trainers on each."""
    each = -(-trainers // min(trainers, most or trainers))
    return -(-trainers // each), each
