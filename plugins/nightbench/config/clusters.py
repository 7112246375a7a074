"""Reads cluster files."""

import dataclasses
import os
from pathlib import Path
from socket import gethostname
from typing import Any

from nightbench.config import locations
from nightbench.config.cluster_checks import check_cluster
from nightbench.config.cluster_schema import ClusterFile, NodeFile
from nightbench.config.locations import cluster_file, find_clusters
from nightbench.config.source import display, read_document
from nightbench.config.validate import alike, lines_of, validate
from nightbench.core.complaints import Complaint, Key
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Catalog,
    Cluster,
    JumpHost,
    NeighbourPolicy,
    Node,
)
from nightbench.core.model.hosts import expand_hosts

HOME = "${NIGHTBENCH_HOME}"

OF_FILE = "${CLUSTER_FILE}"
"""In a planned cluster: the path that the cluster's file means on the host that reads it."""

_WHEELHOUSE: Key = ("environments", "wheelhouse")
_KNOWN_HOSTS: Key = ("known_hosts",)


def load_cluster(
    path: Path,
    *,
    catalog: Catalog | None = None,
    new_known_hosts: bool = False,
) -> Cluster:
    """Read a cluster.

    Framework lines are unchecked without a catalog. `new_known_hosts`: the file of host keys is
    about to be made, next to this one.

    Raises:
        ConfigError: all that is wrong with the file.
    """
    document = read_document(path)
    file = validate(ClusterFile, document, context=lines_of(catalog), named="cluster")
    nodes = [
        (("nodes", position), node)
        for position, entry in enumerate(file.nodes)
        for node in _expanded(entry, file.jump)
    ]
    complaints = [*check_cluster(file, nodes)]
    house = _found(path, file.environments.wheelhouse, _WHEELHOUSE, complaints)
    known_hosts = _found(path, file.known_hosts, _KNOWN_HOSTS, complaints, new=new_known_hosts)
    own: dict[str, Any] = {
        "name": file.cluster,
        "nodes": tuple(node for _, node in nodes),
        "device_kind": file.devices.kind,
        "devices_per_node": file.devices.per_node,
        "compute_capability": file.devices.compute_capability,
        "device_memory_bytes": file.devices.memory,
        "peak_flops": {name: peak * 1e12 for name, peak in file.devices.peak_tflops.items()},
        "environments": file.environments.model_copy(update={"wheelhouse": house}),
        "known_hosts": known_hosts,
        "parallel_cases": file.limits.parallel_cases,
        "window": file.limits.hours,
        "neighbours": _neighbours(file),
        "link_command": file.link.command,
    }
    cluster = Cluster(**alike(file, Cluster) | own)
    document.add(complaints)
    if document.problems:
        raise document.error
    return cluster


def cluster_of(
    name: str, catalog: Catalog | None = None, *, beside: Path | None = None, files: bool = False
) -> Cluster:
    """A cluster that is given by name or, if `files` allows it, as a path.

    Next to a suite's file its own `clusters/` folder is looked at first.

    Raises:
        UserError: there is none, or it is wrong.
    """
    path = cluster_file(name, beside=beside, files=files)
    return load_cluster(path, catalog=catalog)


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
            "with which the run was planned: it names the files of host keys and wheels. All "
            "workers and triggerers need the same dags/ folder (NIGHTBENCH_DAGS)"
        )
    document = read_document(path)
    complaints: list[Complaint] = []
    environments = document.data.get("environments") or {}
    house = _found(path, environments.get("wheelhouse"), _WHEELHOUSE, complaints)
    found = dataclasses.replace(
        cluster,
        known_hosts=_found(path, document.data.get("known_hosts"), _KNOWN_HOSTS, complaints),
        environments=cluster.environments.model_copy(update={"wheelhouse": house}),
    )
    document.add(complaints)
    if document.problems:
        raise document.error
    return found


def _found(
    path: Path, written: str | None, key: Key, complaints: list[Complaint], *, new: bool = False
) -> str | None:
    if written is None:
        return None
    if written.startswith(HOME):
        # Not looked for: `nightbench up` makes these files, and planning works without it.
        return str(locations.home_folder()) + written.removeprefix(HOME)
    if "${" in written:
        message = f'found "{written}"; expected no variable except a leading {HOME}'
        complaints.append(Complaint(key, message))
        return None
    found = locations.relative_to_file(path, written)
    if found is None and new:
        found = path.absolute().parent / os.path.expanduser(written)
    if found is None:
        folder = display(path.parent)
        message = f'found "{written}", which does not exist; looked in {folder} and above it'
        if key == _KNOWN_HOSTS:
            message += f"; `nightbench cluster scan {path.stem}` makes it"
        complaints.append(Complaint(key, message))
        return None
    return str(found)


def _neighbours(file: ClusterFile) -> NeighbourPolicy:
    written = file.neighbours
    if file.shared and "action" not in written.model_fields_set:
        # Nodes that share hardware always see other processes: waiting for none would never end.
        return written.model_copy(update={"action": "record"})
    return written


def _expanded(entry: NodeFile, jump: tuple[JumpHost, ...]) -> list[Node]:
    """Return the nodes of an entry; as few as the shortest of its lists, if they differ."""
    hosts = expand_hosts(entry.hosts)
    names, addresses = (
        expand_hosts(each) if each else hosts for each in (entry.name, entry.data_address)
    )
    found = []
    for host, name, address in zip(hosts, names, addresses, strict=False):
        own: dict[str, Any] = {
            "name": name,
            "host": host,
            "ssh_conn_id": entry.ssh_conn_id or "",
            "data_address": address if entry.data_address else None,
            # On every node, so that a job's nodes contain everything for a login.
            "jump": jump if entry.jump is None else entry.jump,
        }
        found.append(Node(**alike(entry, Node) | own))
    return found
