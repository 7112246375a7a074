"""Validates a suite's file at one scale: afterwards nothing needs the document but its lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nightbench.config.schema import BlockFile, SuiteFile
from nightbench.config.source import Document
from nightbench.config.suite_heads import name_problem
from nightbench.config.validate import fields_of, lines_of, validate
from nightbench.core.complaints import Complaint, Key
from nightbench.core.model import Catalog
from nightbench.core.model.values import FIT

NONE = "none"
"""The compression of a case that has none, and therefore no sparsity."""
_PS_ONLY = ("pservers", "trainers", "sync")


@dataclass(frozen=True)
class WrittenSuite:
    """A suite as its file says it; blocks that are in order, also if the rest is not."""

    scale: str
    cluster: str | None
    blocks: tuple[tuple[Key, BlockFile], ...]
    file: SuiteFile | None
    """None if something is wrong with the file."""
    complaints: tuple[Complaint, ...]
    """Keys of blocks that exclude each other."""


def validate_suite(
    document: Document, catalog: Catalog | None, command_lines: tuple[str, ...]
) -> WrittenSuite:
    """Return a suite's file as the models of `config.schema`.

    Problems of a key are added to the document's problems. Without a catalog names of lines and
    workloads are not checked. `command_lines` run a suite's commands.
    """
    context = {
        **lines_of(catalog),
        **{name: _names(document.data.get(name)) for name in ("tables", "commands")},
    }
    problem = name_problem(document.path.stem)
    if problem is not None:
        document.complain(("suite",), problem)
    named = "suite" if problem is None else None
    file = validate(SuiteFile, document, context=context, named=named)
    scale, cluster, blocks = (document.data.get(key) for key in ("scale", "cluster", "matrix"))
    found, complaints = [], list[Complaint]()
    for position in range(len(blocks) if isinstance(blocks, list) else 0):
        key: Key = ("matrix", position)
        block = file.matrix[position] if file else validate(BlockFile, document, key, context)
        if block is None:
            continue
        unfit = [Complaint((*key, name), message) for name, message in _contradictions(block)]
        wrong = [*_missing(block, key), *unfit]
        complaints += wrong
        if not wrong:
            if block.command is not None:
                own = {"workload": block.command, "frameworks": command_lines}
                block = block.model_copy(update=own)
            found.append((key, block))
    return WrittenSuite(
        scale=str(scale),
        cluster=cluster if isinstance(cluster, str) else None,
        blocks=tuple(found),
        file=file,
        complaints=tuple(complaints),
    )


def _names(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def _missing(block: BlockFile, key: Key) -> Iterator[Complaint]:
    for name in ("frameworks", "workload"):
        if block.command is None and getattr(block, name) is None:
            meaning = str(fields_of(BlockFile)[name].description)
            yield Complaint((*key, name), meaning, is_missing=True)
    if block.strategy == "parameter_server" and block.trainers is None:
        meaning = "numbers of trainers, for parameter_server"
        yield Complaint((*key, "trainers"), meaning, is_missing=True)


def _contradictions(block: BlockFile) -> Iterator[tuple[str, str]]:
    if block.command is not None:
        for name in ("frameworks", "workload"):
            if getattr(block, name) is not None:
                yield name, "is only for workloads of `benchmarks`; found it with `command`"
    if block.sparsity is not None and block.compression == (NONE,):
        yield "sparsity", "requires a `compression`; found none"
    if block.shard_stage is not None and block.shard == (1,):
        yield "shard_stage", "requires a `shard`; found none"
    if block.schedule is not None and block.pipeline == (1,):
        yield "schedule", "requires a `pipeline`; found none"
    shapes = block.devices or ()
    if block.strategy == "parameter_server":
        for trainers in block.trainers or ():
            for nodes, devices in (each for each in shapes if each != FIT):
                if trainers > nodes * devices:
                    least = f"expected at most the devices of {nodes}x{devices}"
                    yield "trainers", f"found {trainers}; {least}"
        return
    for name in _PS_ONLY:
        if getattr(block, name) is not None:
            yield name, f"is for parameter_server only; found it with {block.strategy}"
    if FIT in shapes:
        yield "devices", f"{FIT} is for parameter_server only; found it with {block.strategy}"
    for shape in shapes:
        if block.strategy == "single" and shape not in (FIT, (1, 1)):
            found = f'found "{shape[0]}x{shape[1]}" with single'
            yield "devices", f"{found}; expected 1x1, or collective"
