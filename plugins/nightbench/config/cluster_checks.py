"""Checks a cluster's file for what does not go together in it."""

from collections.abc import Iterable, Iterator, Sequence

from nightbench.config.cluster_schema import ClusterFile, NodeFile
from nightbench.core.complaints import Complaint, Key
from nightbench.core.model import SLUG, EnvironmentPolicy, Node
from nightbench.core.model.hosts import expand_hosts

RESERVED = frozenset({"cluster", "controller"})
"""Names of documents that the spool has next to those of the nodes."""


def check_cluster(file: ClusterFile, nodes: Sequence[tuple[Key, Node]]) -> Iterator[Complaint]:
    """Yield what is wrong with a cluster; each node comes with the key of its entry."""
    yield from _images(file.environments)
    for position, entry in enumerate(file.nodes):
        yield from _entry(file, entry, ("nodes", position))
    yield from _names(nodes)
    yield from _machines(file)
    yield from _compare(file, [node for _, node in nodes])
    yield from _slurm(file)
    yield from _kubernetes(file)


def _entry(file: ClusterFile, entry: NodeFile, key: Key) -> Iterator[Complaint]:
    if file.devices.kind == "gpu" and entry.devices:
        if len(entry.devices) < file.devices.per_node:
            message = (
                f"found {len(entry.devices)} devices; expected at least {file.devices.per_node} "
                "(devices.per_node)"
            )
            yield Complaint((*key, "devices"), message)
    elif entry.devices:
        message = 'found devices on a cluster of kind "cpu"; expected `devices: {kind: gpu}`'
        yield Complaint((*key, "devices"), message)
    holds_cores = file.lock == "devices" and file.devices.kind == "cpu"
    if holds_cores and len(entry.cpus) < file.devices.per_node:
        message = (
            f"found {len(entry.cpus)} cores in cpus; expected at least the "
            f"{file.devices.per_node} of devices.per_node: with `lock: devices` a gang locks "
            "cores by their numbers"
        )
        yield Complaint((*key, "cpus"), message)
    if entry.ssh_conn_id is None and file.kubernetes is None:
        meaning = "Airflow Connection with user, key and port."
        yield Complaint((*key, "ssh_conn_id"), meaning, is_missing=True)
    hosts = expand_hosts(entry.hosts)
    for field, written in (("name", entry.name), ("data_address", entry.data_address)):
        if written and len(found := expand_hosts(written)) != len(hosts):
            message = (
                f'found "{written}", which is {len(found)} names; expected {len(hosts)}, as many '
                "as `hosts`"
            )
            yield Complaint((*key, field), message)


def _names(nodes: Iterable[tuple[Key, Node]]) -> Iterator[Complaint]:
    seen: dict[str, Key] = {}
    for key, node in nodes:
        if not SLUG.match(node.name):
            message = f'found "{node.name}" as a name; expected letters, digits, ".", "_", "-"'
            yield Complaint((*key, "name"), message)
        if node.name in RESERVED:
            message = (
                f'found the name "{node.name}"; expected another name, because a file of each run '
                "has this name"
            )
            yield Complaint((*key, "name"), message)
        if node.name in seen:
            yield Complaint(key, f'found the name "{node.name}" again', first=seen[node.name])
        seen.setdefault(node.name, key)


def _images(environments: EnvironmentPolicy) -> Iterator[Complaint]:
    if (environments.kind == "container") != bool(environments.images):
        message = (
            f"found {len(environments.images)} images with `kind: {environments.kind}`; expected "
            "images only with `kind: container`"
        )
        yield Complaint(("environments", "images"), message)
    if environments.images and environments.paths:
        message = "found paths with `kind: container`; expected only images"
        yield Complaint(("environments", "paths"), message)
    of_apptainer = environments.engine.rpartition("/")[2] == "apptainer"
    for line, image in environments.images.items():
        expected = ""
        if image.startswith("/") and not of_apptainer:
            expected = "a name in a registry: only apptainer runs files"
        elif image.startswith("sha256:") and of_apptainer:
            expected = "NAME@sha256:… or /FILE.sif@sha256:…: apptainer has no image ids"
        if expected:
            message = f'found "{image}"; expected {expected}'
            yield Complaint(("environments", "images", line), message)


def _slurm(file: ClusterFile) -> Iterator[Complaint]:
    if file.slurm is None:
        return
    job_root = file.environments.job_root
    if job_root is not None:
        message = (
            f'found "{job_root}" with `slurm`; expected no job_root: the login node must see the '
            "state of jobs, so this state is below `root`, which all nodes share"
        )
        yield Complaint(("environments", "job_root"), message)
    if file.lock != "node":
        message = (
            f'found "{file.lock}" with `slurm`; expected "node", because no other gang runs on the '
            "nodes of a Slurm job"
        )
        yield Complaint(("lock",), message)


def _kubernetes(file: ClusterFile) -> Iterator[Complaint]:
    written = file.kubernetes
    if written is None:
        return
    if file.slurm is not None:
        yield Complaint(("kubernetes",), "found both `kubernetes` and `slurm`; expected one")
    gpus = file.devices.kind == "gpu"
    if gpus and not any("gpu" in name for name in written.resources):
        message = 'found no GPU on a cluster of kind "gpu"; expected for example nvidia.com/gpu'
        yield Complaint(("kubernetes", "resources"), message)


def _compare(file: ClusterFile, nodes: Iterable[Node]) -> Iterator[Complaint]:
    written = file.compare
    if written.repositories and file.kubernetes is not None:
        message = "found repositories; expected none: nodes of Kubernetes make no builds"
        yield Complaint(("compare", "repositories"), message)
    if written.build_node not in (None, *(node.name for node in nodes)):
        message = f'found "{written.build_node}"; expected a node of the cluster'
        yield Complaint(("compare", "build_node"), message)


def _machines(file: ClusterFile) -> Iterator[Complaint]:
    stated = [entry.machine for entry in file.nodes]
    if None in stated and any(stated):
        message = "found no machine; expected it for all nodes, or for none"
        yield Complaint(("nodes", stated.index(None)), message)
