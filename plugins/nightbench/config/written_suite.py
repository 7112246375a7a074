"""Validates a suite's file at one scale: afterwards nothing needs the document but its lines."""

from collections.abc import Iterator
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


def validate_suite(document: Document, catalog: Catalog | None) -> SuiteFile:
    """Return a suite's file. Without a catalog names of lines and workloads are not checked.

    Raises:
        ConfigError: all that is wrong with the keys of the file.
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
    for position, block in enumerate(file.matrix):
        key: Key = ("matrix", position)
        unfit = [Complaint((*key, name), message) for name, message in _contradictions(block)]
        document.add([*_missing(block, key), *unfit])
    if document.problems:
        raise document.error
    return file


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
