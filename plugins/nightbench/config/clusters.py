"""Reads cluster files."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from socket import gethostname

from nightbench.config import locations
from nightbench.config.cluster_schema import ClusterFile, NodeFile
from nightbench.config.source import Document, Key, display, read_document
from nightbench.config.suite_heads import find_clusters
from nightbench.config.validate import validate
from nightbench.core.errors import UserError
from nightbench.core.model import (
    SLUG,
    Catalog,
    Cluster,
    ComparePolicy,
    EnvironmentPolicy,
    JumpHost,
    KubernetesPolicy,
    NeighbourPolicy,
    Node,
    SlurmPolicy,
    Strategy,
    values,
)

HOME = "${NIGHTBENCH_HOME}"

OF_FILE = "${CLUSTER_FILE}"
"""In a planned cluster: the path that the cluster's file means on the machine that reads it."""

RESERVED = frozenset({"cluster", "controller"})
"""Names of documents that lie in the spool beside those of the nodes."""


def clusters_for(suite: Path | None, dags: Path) -> tuple[dict[str, Path], list[Path]]:
    """Return the clusters that a suite may name, and the folders that were looked in.

    The `clusters/` beside the suite's file, or beside the folder `suites/` that it lies in, comes
    first.
    """
    folders = [dags.absolute()]
    if suite is not None:
        beside = suite.absolute().parent
        above = (each.parent for each in (beside, beside.parent) if each.name == "suites")
        folders.insert(0, next(above, beside))
        folders = list(dict.fromkeys(folders))
    known: dict[str, Path] = {}
    for folder in folders:
        known = find_clusters(folder) | known
    return known, [folder / "clusters" for folder in folders]


def load_cluster(
    path: Path,
    *,
    home: Path | None = None,
    catalog: Catalog | None = None,
    new_known_hosts: bool = False,
) -> Cluster:
    """Read a cluster.

    `home` is what `${NIGHTBENCH_HOME}` stands for; the variable's value, or `.nightbench` beside
    `dags/`, when None. Framework lines are unchecked without a catalog. `new_known_hosts`: the file
    of host keys is about to be made, beside this one.

    Raises:
        ConfigError: all that is wrong with the file.
    """
    document = read_document(path)
    file = validate(ClusterFile, document, context=lines_of(catalog))
    document.complain_of_name("cluster", path.stem)
    paths = _Paths(document, home)
    if file is None:
        raise document.error
    environments = file.environments
    house = paths.find(environments.wheelhouse, ("environments", "wheelhouse"))
    _check_images(environments, document)
    nodes = tuple(_nodes(file, document))
    _check_machines(file, document)
    cluster = Cluster(
        name=file.cluster,
        nodes=nodes,
        description=file.description,
        device_kind=file.devices.kind,
        devices_per_node=file.devices.per_node,
        compute_capability=file.devices.compute_capability,
        device_memory_bytes=file.devices.memory,
        peak_flops={name: peak * 1e12 for name, peak in file.devices.peak_tflops.items()},
        environments=environments.model_copy(update={"wheelhouse": house}),
        known_hosts=paths.find(file.known_hosts, ("known_hosts",), new=new_known_hosts),
        env=file.env,
        role_env=file.role_env,
        shared=file.shared,
        jump=file.jump,
        transport=file.transport,
        lock=file.lock,
        binding=file.binding,
        data=file.data,
        parallel_cases=file.limits.parallel_cases,
        window=file.limits.hours,
        compare=_compare(file, nodes, document),
        neighbours=_neighbours(file),
        health=file.health,
        slurm=_slurm(file, document),
        kubernetes=_kubernetes(file, document),
        link_command=file.link.command,
    )
    if document.problems:
        raise document.error
    return cluster


def without_paths(cluster: Cluster) -> Cluster:
    """Return the cluster as it is stored: its paths are those of one machine, see `OF_FILE`."""
    house = cluster.environments.wheelhouse and OF_FILE
    return dataclasses.replace(
        cluster,
        known_hosts=cluster.known_hosts and OF_FILE,
        environments=cluster.environments.model_copy(update={"wheelhouse": house}),
    )


def on_this_machine(cluster: Cluster, project: str = "") -> Cluster:
    """Return a stored cluster with the paths that its file means on this machine.

    `project` is the folder with which the run was planned, for processes that serve several; where
    it is not on this machine, this deployment's own counts.

    Raises:
        UserError: this machine lacks the cluster's file, or one that it names.
    """
    if OF_FILE not in (cluster.known_hosts, cluster.environments.wheelhouse):
        return cluster
    here = project and Path(project).is_dir()
    dags = Path(project) if here else locations.dags_folder()
    path = find_clusters(dags).get(cluster.name)
    if path is None:
        raise UserError(
            f"{dags / 'clusters' / cluster.name}.yaml: not on {gethostname()}; expected the file "
            "with which the run was planned: it names the files of host keys and wheels. Workers "
            "and triggerers need the same dags/ folder (NIGHTBENCH_DAGS)"
        )
    document = read_document(path)
    paths = _Paths(document, locations.home_folder())
    environments = document.data.get("environments") or {}
    house = paths.find(environments.get("wheelhouse"), ("environments", "wheelhouse"))
    found = dataclasses.replace(
        cluster,
        known_hosts=paths.find(document.data.get("known_hosts"), ("known_hosts",)),
        environments=cluster.environments.model_copy(update={"wheelhouse": house}),
    )
    if document.problems:
        raise document.error
    return found


def lines_of(catalog: Catalog | None) -> dict[str, object]:
    """Return what validators of names need to know of the catalog."""
    if catalog is None:
        return {}
    lines = catalog.frameworks.values()
    return {
        "frameworks": catalog.frameworks,
        "workloads": catalog.workloads,
        "roles": {role.name for line in lines for each in Strategy for role in line.roles_of(each)},
        "launcher_env": {
            variable: [line.line for line in lines if variable in line.launcher_env]
            for variable in sorted(set().union(*(line.launcher_env for line in lines)))
        },
    }


def relative_to_file(path: Path, written: str) -> Path | None:
    """Return the file or folder that a relative path of a YAML file means, or None.

    It is looked for beside the file first, then in the folder above (`dags/`).
    """
    for folder in (path.parent, path.parent.parent):
        candidate = folder.absolute() / os.path.expanduser(written)
        if os.path.exists(candidate):
            return candidate
    return None


class _Paths:
    def __init__(self, document: Document, home: Path | None) -> None:
        self._document = document
        beside = document.path.absolute().parent.parent.parent / ".nightbench"
        self._home = home or Path(os.environ.get("NIGHTBENCH_HOME") or beside)

    def find(self, written: str | None, key: Key, new: bool = False) -> str | None:
        if written is None:
            return None
        if written.startswith(HOME):
            # Not looked for: `nightbench up` makes these files, and planning works without it.
            return str(locations.written_path(self._home)) + written.removeprefix(HOME)
        if "${" in written:
            message = f'found "{written}"; expected no variable but a leading {HOME}'
            self._document.complain(key, message)
            return None
        found = relative_to_file(self._document.path, written)
        if found is None and new:
            found = self._document.path.absolute().parent / os.path.expanduser(written)
        if found is None:
            folder = display(self._document.path.parent)
            message = f'found "{written}", which is not there; looked in {folder} and above it'
            if key == ("known_hosts",):
                message += f"; `nightbench cluster scan {self._document.path.stem}` makes it"
            self._document.complain(key, message)
            return None
        return str(found)


def _check_images(environments: EnvironmentPolicy, document: Document) -> None:
    if (environments.kind == "container") != bool(environments.images):
        message = (
            f"found {len(environments.images)} beside `kind: {environments.kind}`; expected images "
            "with `kind: container`, and only there"
        )
        document.complain(("environments", "images"), message)
    if environments.images and environments.paths:
        message = "found it beside `kind: container`; expected images alone"
        document.complain(("environments", "paths"), message)
    of_apptainer = environments.engine.rpartition("/")[2] == "apptainer"
    for line, image in environments.images.items():
        expected = ""
        if image.startswith("/") and not of_apptainer:
            expected = "a name in a registry: only apptainer runs files"
        elif image.startswith("sha256:") and of_apptainer:
            expected = "NAME@sha256:… or /FILE.sif@sha256:…: apptainer knows no ids"
        if expected:
            message = f'found "{image}"; expected {expected}'
            document.complain(("environments", "images", line), message)


def _slurm(file: ClusterFile, document: Document) -> SlurmPolicy | None:
    written = file.slurm
    if written is None:
        return None
    job_root = file.environments.job_root
    if job_root is not None:
        message = (
            f'found "{job_root}" beside `slurm`; expected none: the login node must see the '
            "state of jobs, so it lies below `root`, which all nodes share"
        )
        document.complain(("environments", "job_root"), message)
    if file.lock != "node":
        message = (
            f'found "{file.lock}" beside `slurm`; expected "node": a gang has the nodes of its '
            "job for itself"
        )
        document.complain(("lock",), message)
    return written


def _kubernetes(file: ClusterFile, document: Document) -> KubernetesPolicy | None:
    written = file.kubernetes
    if written is None:
        return None
    if file.slurm is not None:
        document.complain(("kubernetes",), "found it beside `slurm`; expected one")
    gpus = file.devices.kind == "gpu"
    if gpus and not any("gpu" in name for name in written.resources):
        message = 'found no GPU on a cluster of kind "gpu"; expected nvidia.com/gpu, say'
        document.complain(("kubernetes", "resources"), message)
    return written


def _compare(file: ClusterFile, nodes: Iterable[Node], document: Document) -> ComparePolicy:
    written = file.compare
    if written.repositories and file.kubernetes is not None:
        message = "found repositories; expected none: nothing is built on nodes of Kubernetes"
        document.complain(("compare", "repositories"), message)
    if written.build_node not in (None, *(node.name for node in nodes)):
        message = f'found "{written.build_node}"; expected a node of the cluster'
        document.complain(("compare", "build_node"), message)
    return written


def _neighbours(file: ClusterFile) -> NeighbourPolicy:
    written = file.neighbours
    if file.shared and "action" not in written.model_fields_set:
        # Nodes that share hardware are never alone: a wait for quiet would never end.
        return written.model_copy(update={"action": "record"})
    return written


def _check_machines(file: ClusterFile, document: Document) -> None:
    stated = [entry.machine for entry in file.nodes]
    if None in stated and any(stated):
        message = "found no machine, which other nodes have; expected it with all or with none"
        document.complain(("nodes", stated.index(None)), message)


def _nodes(file: ClusterFile, document: Document) -> list[Node]:
    nodes: list[Node] = []
    seen: dict[str, Key] = {}
    for position, entry in enumerate(file.nodes):
        key: Key = ("nodes", position)
        if file.devices.kind == "gpu" and entry.devices:
            if len(entry.devices) < file.devices.per_node:
                message = (
                    f"found {len(entry.devices)}; expected at least the {file.devices.per_node} of "
                    "devices.per_node"
                )
                document.complain((*key, "devices"), message)
        elif entry.devices:
            message = 'found devices on a cluster of kind "cpu"; expected `devices: {kind: gpu}`'
            document.complain((*key, "devices"), message)
        holds_cores = file.lock == "devices" and file.devices.kind == "cpu"
        if holds_cores and len(entry.cpus) < file.devices.per_node:
            message = (
                f"found {len(entry.cpus)} cores in cpus; expected at least the "
                f"{file.devices.per_node} of devices.per_node: with `lock: devices` a gang holds "
                "cores by their numbers"
            )
            document.complain((*key, "cpus"), message)
        if entry.ssh_conn_id is None and file.kubernetes is None:
            meaning = "Airflow Connection with user, key and port."
            document.complain_of_missing((*key, "ssh_conn_id"), meaning)
        for node in _expand(entry, file.jump, key, document):
            if not SLUG.match(node.name):
                message = f'found "{node.name}" as a name; expected letters, digits, ".", "_", "-"'
                document.complain((*key, "name"), message)
            if node.name in RESERVED:
                message = (
                    f'found "{node.name}" as a name; expected another one: a file of each run is '
                    "called so"
                )
                document.complain((*key, "name"), message)
            if node.name in seen:
                first = document.lines[seen[node.name]]
                message = f'found the name "{node.name}" again (first on line {first})'
                document.complain(key, message)
            seen.setdefault(node.name, key)
            nodes.append(node)
    return nodes


def _expand(
    entry: NodeFile,
    jump: tuple[JumpHost, ...],
    key: Key,
    document: Document,
) -> list[Node]:
    hosts = values.hosts(entry.hosts)
    beside: dict[str, list[str]] = {}
    for field in ("name", "data_address"):
        written = getattr(entry, field)
        beside[field] = values.hosts(written) if written else list(hosts)
        if len(beside[field]) != len(hosts):
            message = (
                f'found "{written}", which is {len(beside[field])}; expected as many as the '
                f"{len(hosts)} of hosts"
            )
            document.complain((*key, field), message)
            return []
    return [
        Node(
            name=name,
            host=host,
            ssh_conn_id=entry.ssh_conn_id or "",
            port=entry.port,
            data_address=address if entry.data_address else None,
            interface=entry.interface,
            port_range=entry.port_range,
            cpus=entry.cpus,
            devices=entry.devices,
            env=entry.env,
            user=entry.user,
            # On every node, so that a job's nodes say all that a login needs.
            jump=jump if entry.jump is None else entry.jump,
            machine=entry.machine,
        )
        for host, name, address in zip(hosts, beside["name"], beside["data_address"], strict=True)
    ]
