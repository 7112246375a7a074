"""The sections of a cluster's file for batch systems: `slurm` and `kubernetes`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from nightbench.config import values as v
from nightbench.config.schema import FrameworkName
from nightbench.config.validate import StrictModel

SLURM_RESERVED = frozenset(
    [
        "--array",
        "--begin",
        "--chdir",
        "--dependency",
        "--error",
        "--exclude",
        "--export",
        "--export-file",
        "--hold",
        "--input",
        "--job-name",
        "--no-requeue",
        "--nodefile",
        "--nodelist",
        "--nodes",
        "--ntasks",
        "--ntasks-per-node",
        "--open-mode",
        "--output",
        "--parsable",
        "--requeue",
        "--signal",
        "--test-only",
        "--time",
        "--wait",
        "--wrap",
    ]
)
"""Options of `sbatch` that would change what a gang's job is, or that have keys of their own."""


def _slurm_option(option: str) -> str:
    name = option.partition("=")[0]
    if not re.fullmatch(r"--[a-z][a-z-]*", name):
        raise ValueError(f'found "{option}"; expected `--name` or `--name=value`')
    if name in SLURM_RESERVED:
        raise ValueError(f'found "{option}"; expected another option: Nightbench gives {name}')
    return option


SlurmOption = Annotated[v.Text, AfterValidator(_slurm_option)]


class SlurmFile(StrictModel):
    """Gangs become jobs of Slurm: `hosts` of `nodes` are Slurm's names of nodes (docs/slurm.md)."""

    login: v.Hosts
    """SSH address of a login node: it submits jobs and sees `environments.root`, which all nodes
    share. Its Connection is the `ssh_conn_id` of the nodes."""
    partition: v.Name | None = None
    """Partition; Slurm's default unless given."""
    account: v.Name | None = None
    """Account; the user's default unless given."""
    time_limit_s: v.PositiveDuration | None = Field(None, alias="time_limit")
    """Time limit of a job, for a case; the partition's unless given."""
    warning_s: v.PositiveDuration = Field(60.0, alias="warning")
    """How long before its end Slurm tells a job's agents of it."""
    options: v.Many[SlurmOption] = ()
    """Further options of `sbatch`, each `--name=value`, `--gres=gpu:8` say."""


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_KEY = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?\Z"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?\Z")
_QUANTITY = re.compile(r"[1-9]\d*(\.\d+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?\Z")
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]{0,400}(@sha256:[0-9a-f]{64})?\Z")


def _matches(pattern: re.Pattern[str], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.match(text):
            raise ValueError(f'found "{text}"; expected {expected}')
        return text

    return AfterValidator(check)


DnsLabel = Annotated[
    str, _matches(_LABEL, 'a name of at most 63 of a-z, 0-9 and "-"'), v.Words("name")
]
LabelKey = Annotated[str, _matches(_KEY, "a name such as nvidia.com/gpu")]
LabelValue = Annotated[str, _matches(_LABEL_VALUE, "at most 63 letters, digits, and . _ - within")]
Quantity = Annotated[str, _matches(_QUANTITY, 'a quantity in quotes, such as "10", 500m or 5Gi')]
Image = Annotated[str, _matches(_IMAGE, "an image such as registry.example.org/training@sha256:…")]


class KubernetesFile(StrictModel):
    """Gangs become indexed Jobs, a pod for each of `nodes` (docs/kubernetes-jobs.md)."""

    claim: DnsLabel
    """PersistentVolumeClaim that all pods mount, ReadWriteMany: plans and results."""
    images: Annotated[dict[FrameworkName, Image], Field(min_length=1), v.Words("images")]
    """Framework line: image that has it. `environments.paths` says below which prefix, and
    `environments.python` runs the agent."""
    namespace: DnsLabel = "default"
    """Namespace of all that is made."""
    resources: Annotated[dict[LabelKey, Quantity], v.Words("resources")] = Field({})
    """What a pod requests, and may have no more of: `{cpu: "10", memory: 5Gi, nvidia.com/gpu:
    "8"}`. A case with `cpus` or `memory` states these itself."""
    node_selector: Annotated[dict[LabelKey, LabelValue], v.Words("labels")] = Field({})
    """Labels that the pods' machines must have."""
    tolerations: Annotated[v.Many[LabelKey], v.Words("keys of taints")] = ()
    """Taints of machines that the pods tolerate."""
    user: v.Count = 50001
    """User id that the pods run as; never root."""
    time_limit_s: v.PositiveDuration | None = Field(None, alias="time_limit")
    """After which Kubernetes ends a Job; never unless given."""
