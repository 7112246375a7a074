"""Commands of a suite: scripts of others, which become workloads of the lines that run commands."""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from nightbench.config.scales import scales_of
from nightbench.config.source import ConfigError, display, read_document
from nightbench.core.complaints import Complaint, one_of
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Case,
    Catalog,
    Cost,
    Role,
    Strategy,
    Suite,
    WorkloadInfo,
    digest_of,
)
from nightbench.core.model import values as v
from nightbench.core.model_flops import evaluate

PLACEHOLDERS = (
    *("python", "rank", "local_rank", "world_size", "trainers", "nodes", "node_rank"),
    *("devices_per_node", "host", "hosts", "host_slots", "master", "master_port", "port"),
    *("endpoints", "device", "devices", "batch_size", "global_batch_size", "steps"),
    *("warmup_steps", "measured_steps", "precision", "sequence_length", "threads", "scale", "seed"),
    "data",
)
"""Placeholders that the launcher of such a line replaces in a word of a command."""

LAST_WRITES = frozenset({"megatron"})
"""Formats of trainers that print on the last rank, which with pipeline stages alone has a loss."""

_GROUPS = frozenset({"throughput", "step_time"})


def _known_placeholders(word: str) -> str:
    for name in re.findall(r"\{([a-z_]+)\}", word):
        if name not in PLACEHOLDERS:
            raise ValueError(f"{{{name}}}: {one_of(name, PLACEHOLDERS)}")
    return word


def _pattern(text: str) -> str:
    try:
        groups = re.compile(text).groupindex
    except re.error as error:
        raise ValueError(f'found "{text}": {error}; expected a regular expression') from None
    if not _GROUPS & set(groups):
        raise ValueError(
            f'found "{text}"; expected a group named throughput or step_time: '
            "(?P<throughput>[0-9.]+)"
        )
    return text


Word = Annotated[str, AfterValidator(_known_placeholders), v.Words("text with placeholders")]


class LogFile(v.StrictModel):
    """The log of a script, and what its values mean."""

    format: v.Name
    """Format of the log: a file of `benchmarks/logs/formats` (docs/log-formats.md)."""
    file: Word | None = None
    """Log file of the script, below `folder` [default: the output of the script]."""
    of: Literal["first", "last", "all"] | None = None
    """Processes that write a log: only the first one, only the last one (as Megatron-LM does), or
    each process [default: `first`; for `megatron`, `last`]."""
    covers: Literal["all", "device"] = "all"
    """Whether a throughput in the log counts all devices, or one device."""
    pattern: Annotated[str, AfterValidator(_pattern), v.Words("regular expression")] | None = None
    """For the format `regex`: regular expression with named groups."""
    time_unit: Literal["s", "ms", "us"] | None = None
    """Unit of the step time, if the log does not state it."""
    unit: v.Name | None = None
    """Unit of the throughput, if the log does not state it."""
    metric: v.Text | None = None
    """Name of the log's metric that is the throughput."""
    every: v.Count | None = None
    """Number of steps between two lines, for a log without step numbers."""


class ModelFile(v.StrictModel):
    """The model that a script trains, by a workload whose formulas count its FLOPs."""

    workload: v.Name
    """Workload whose formulas count the FLOPs: `llama`, `gpt2`, `mixtral`, …."""
    scale: v.Name = "full"
    """Scale of the workload, which sets the parameters of the formulas."""
    params: dict[v.Text, int | float] = Field({})
    """Parameters that the script sets differently: `sequence_length`, `vocabulary`, `layers`, …"""


class CommandFile(v.StrictModel):
    """A training script: how it is started, and how its log is read."""

    argv: Annotated[list[Word], Field(min_length=1)]
    """Program and arguments of the script, started without a shell. docs/scripts.md lists the
    placeholders, such as `{rank}`."""
    log: LogFile
    """How values are read from the script's log."""
    unit: v.Name
    """Unit of work, in the plural: `images`, `tokens`."""
    launch: Literal["device", "node", "head"] = "device"
    """How often the script is started: for each device, for each node, or on the first node alone
    (mpirun, horovodrun)."""
    folder: v.Text | None = None
    """Working directory of the script on the nodes. The commit of its Git repository is recorded
    [default: a new folder for each launch]."""
    prefix: v.Text | None = None
    """Virtual environment on the nodes. `{python}` is its interpreter, and its `bin` is first on
    the PATH [default: the agent's interpreter]."""
    env: dict[v.EnvName, Word] = Field({})
    """Environment variables of the script; placeholders are replaced."""
    units_per_example: v.Count = 1
    """Units of work in one example, for instance the tokens of a sequence."""
    model: ModelFile | None = None
    """Model that the script trains. From it and the measured throughput, Nightbench computes model
    FLOPs and MFU."""


def read_commands(
    files: Mapping[str, CommandFile],
    catalog: Catalog,
    cases: Collection[Case],
    complaints: list[Complaint],
) -> dict[str, WorkloadInfo]:
    """Return the commands of a suite as workloads, by name.

    A command has all scales of the suite's cases, and may use them as a placeholder.
    """
    scales = {*scales_of(catalog), *(case.scale for case in cases)}
    lines = tuple(line.line for line in catalog.frameworks.values() if line.commands)
    found = {}
    for name, file in files.items():
        key = ("commands", name)
        if name in catalog.workloads:
            message = f'found "{name}", which is a workload; expected another name'
            complaints.append(Complaint(key, message))
        if file.log.format not in catalog.log_formats:
            message = one_of(file.log.format, catalog.log_formats)
            complaints.append(Complaint((*key, "log", "format"), message))
        is_on_each = file.launch == "device"
        writer = file.log.of
        if writer is None:
            last = file.log.format in LAST_WRITES and file.launch != "head"
            writer = "last" if last else "first"
        if file.launch == "head" and writer != "first":
            message = f"found {writer} with launch: head, which has one process; expected first"
            complaints.append(Complaint((*key, "log", "of"), message))
        log = {**file.log.model_dump(), "of": writer}
        params = {
            "command": {
                **file.model_dump(exclude={"unit", "units_per_example", "log", "model"}),
                "log": log,
            },
            "units_per_example": file.units_per_example,
        }
        found[name] = WorkloadInfo(
            name=name,
            title=name,
            unit=file.unit,
            # Not in the digest: how work is counted does not change what is measured.
            cost=Cost.model_construct(
                source="the command's `model`",
                forward=_counted(name, file, catalog, cases, complaints),
                tokens="units_per_example" if file.unit == "tokens" else None,
            ),
            frameworks=lines,
            strategies=(Strategy.SINGLE, Strategy.COLLECTIVE),
            scales=dict.fromkeys(scales, params),
            digest=digest_of({"params": params, "unit": file.unit}),
            roles=(
                Role(
                    name="trainer",
                    count="trainers" if is_on_each else "nodes",
                    place="fill" if is_on_each else "spread",
                    measured=True,
                    measured_ranks=writer,
                    device=is_on_each,
                ),
            ),
        )
    return found


def _counted(
    name: str,
    file: CommandFile,
    catalog: Catalog,
    cases: Collection[Case],
    complaints: list[Complaint],
) -> dict[str, str]:
    """Return the formulas of a command's example as a workload has them: numbers, by its model."""
    if file.model is None:
        return {}
    key = ("commands", name, "model")
    try:
        terms, length = model_of(catalog, **dict(file.model))
    except UserError as error:
        complaints.append(Complaint(key, str(error)))
        return {}
    lengths = {case.sequence_length or length for case in cases if case.workload == name}
    if file.unit == "tokens":
        lengths.add(file.units_per_example)
    for found in sorted(each for each in lengths - {length} if length and each):
        message = (
            f"found a sequence of {length} tokens, but an example of the command or of its cases "
            f"has {found}; expected the same (params: {{sequence_length: {found}}})"
        )
        complaints.append(Complaint(key, message))
    return {term: repr(flops) for term, flops in terms.items()}


def model_of(
    catalog: Catalog, workload: str, scale: str, params: Mapping[str, float]
) -> tuple[dict[str, float], int | None]:
    """Return the forward FLOPs of an example by term, and its length if it is a sequence.

    Raises:
        UserError: there is no such workload, scale or parameter, or it states no model FLOPs.
    """
    known = [each.name for each in catalog.workloads.values() if each.cost and each.cost.forward]
    if workload not in known:
        raise UserError(f"workload: {one_of(workload, known)}")
    info = catalog.workloads[workload]
    if scale not in info.scales:
        raise UserError(f"scale: {one_of(scale, info.scales)}")
    own = Case(workload, "", Strategy.SINGLE, scale=scale)
    length = params.get("sequence_length")
    if length is not None:
        own = dataclasses.replace(own, sequence_length=int(length))
    merged = info.params_of(own)
    for name in params:
        if isinstance(merged.get(name), bool) or not isinstance(merged.get(name), int | float):
            numbers = [key for key, value in merged.items() if type(value) in (int, float)]
            raise UserError(f"params: {one_of(name, numbers)}")
    merged.update(params)
    assert info.cost is not None
    try:
        terms = {term: evaluate(text, merged) for term, text in info.cost.forward.items()}
    except ValueError as error:
        raise UserError(f"params: {error}") from None
    return terms, merged.get("sequence_length")


def clashing_commands(suites: Iterable[Suite]) -> list[UserError]:
    """Return an error for each command that an earlier suite defines otherwise.

    A command's name is part of its cases' names: both would be one series.
    """
    first: dict[str, Suite] = {}
    errors: list[UserError] = []
    for suite in suites:
        for name, command in suite.commands.items():
            other = first.setdefault(name, suite)
            if other.source != suite.source and other.commands[name].digest != command.digest:
                there = read_document(Path(other.source))
                place = f"{display(there.path)}:{there.problem(('commands', name), '').line}"
                message = (
                    f"found another definition than in {place}, whose cases have the same names; "
                    "expected the same definition, or another name"
                )
                here = read_document(Path(suite.source))
                problem = here.problem(("commands", name), message)
                errors.append(ConfigError(here.path, [problem]))
    return errors
