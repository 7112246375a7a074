"""How nodes are reached: from Airflow Connections, over SSH or as pods.

`ssh_targets` works in a task and from a terminal, `ssh_targets_async` in a trigger. For pods, the
extra of a Connection is that of the provider cncf.kubernetes: `in_cluster`, `kube_config_path`,
`kube_config`, `cluster_context`. Without any of them the user's own kubeconfig counts.

Nothing here is ever logged: a Connection holds keys and passwords.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow.sdk import BaseHook

from nightbench.config.clusters import on_this_machine
from nightbench.core.errors import UserError
from nightbench.core.model import Cluster, JumpHost, KubernetesPolicy, Node
from nightbench.gang import ApiAccess, PodTarget, SshTarget, Target
from nightbench.orchestration.connections import (
    PlainConnection,
    get_connection,
    is_on,
    missing,
    not_found,
)

SSH_PORT = 22
CERTIFICATES = ("certificate_file", "certificate")
"""Keys of a Connection's extra with an OpenSSH user certificate: its path, or its text."""
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+\\-]{0,103}\$?\Z")
KEY_TYPES = ("ssh-", "ecdsa-", "sk-")


Known = Mapping[str, PlainConnection | UserError]
"""Connections by their ids; the error of one that is missing or damaged."""


def ssh_targets(cluster: Cluster) -> dict[str, Target]:
    """How each node of a cluster is reached, by the node's name.

    A Connection that is missing, is not of type ssh, or knows no host key becomes the problem of
    the nodes that name it.

    Raises:
        UserError: no node is left.
    """
    cluster = on_this_machine(cluster)
    named = _named_by(cluster)
    known: dict[str, PlainConnection | UserError] = {}
    for conn_id in _conn_ids(cluster):
        try:
            known[conn_id] = get_connection(conn_id, named)
        except UserError as error:
            known[conn_id] = error
    return _targets(cluster, known)


async def ssh_targets_async(cluster: Cluster, project: str = "") -> dict[str, Target]:
    """`ssh_targets` for an event loop, as a triggerer's is: nothing in it may block.

    `project` is that of `on_this_machine`.

    Raises:
        UserError: as `ssh_targets` does.
    """
    cluster = await asyncio.to_thread(on_this_machine, cluster, project)
    named = _named_by(cluster)
    known: dict[str, PlainConnection | UserError] = {}
    for conn_id in _conn_ids(cluster):
        try:
            found = await BaseHook.aget_connection(conn_id)
            # Airflow's own property masks secrets by a blocking call: a trigger must not make it.
            extra = _extra(conn_id, found.extra)
            known[conn_id] = PlainConnection.of(found, extra)
        except not_found():
            known[conn_id] = missing(conn_id, named)
        except UserError as error:
            known[conn_id] = error
    return _targets(cluster, known)


def _extra(conn_id: str, written: str | None) -> Any:
    """A Connection's extra; broken JSON is reported without its text: it may hold a key."""
    try:
        return json.loads(written or "{}")
    except ValueError as error:
        raise UserError(f"connection {conn_id}: its extra is not JSON: {error}") from None


def _named_by(cluster: Cluster) -> str:
    if cluster.kubernetes is not None:
        return f", kubernetes.conn_id in the cluster {cluster.name}"
    return f", ssh_conn_id in the cluster {cluster.name}"


def _hops(cluster: Cluster, node: Node) -> tuple[JumpHost, ...]:
    return cluster.jump if node.jump is None else node.jump


def _conn_ids(cluster: Cluster) -> list[str]:
    if cluster.kubernetes is not None:
        return [cluster.kubernetes.conn_id]
    hops = {hop.ssh_conn_id for node in cluster.nodes for hop in _hops(cluster, node)}
    return sorted(hops | {node.ssh_conn_id for node in cluster.nodes})


def _targets(cluster: Cluster, known: Known) -> dict[str, Target]:
    if cluster.kubernetes is not None:
        connection = _usable(known, cluster.kubernetes.conn_id)
        return {**_pod_targets(cluster, cluster.kubernetes, connection)}
    found: dict[str, Target] = {}
    problems: list[UserError] = []
    for node in cluster.nodes:
        host = cluster.slurm.login if cluster.slurm else node.host
        here = _Endpoint(cluster, node.name, host, node.ssh_conn_id, node.port, node.user)
        try:
            hops = []
            for hop in _hops(cluster, node):
                there = _Endpoint(cluster, node.name, hop.host, hop.ssh_conn_id, hop.port, None)
                hops.append(there.target(_usable(known, hop.ssh_conn_id), ()))
            found[node.name] = here.target(_usable(known, node.ssh_conn_id), tuple(hops))
        except UserError as error:
            problems.append(error)
            found[node.name] = SshTarget(node.name, host, b"", problem=str(error))
    if len(problems) == len(cluster.nodes):
        raise problems[0]
    return found


def _usable(known: Known, conn_id: str) -> PlainConnection:
    connection = known[conn_id]
    if isinstance(connection, UserError):
        raise connection
    return connection


@dataclass(frozen=True)
class _Endpoint:
    """A node or one of its jump hosts, before its Connection is known."""

    cluster: Cluster
    node: str
    host: str
    conn_id: str
    own_port: int | None
    own_user: str | None

    def target(self, connection: PlainConnection, jump: tuple[SshTarget, ...]) -> SshTarget:
        extra = connection.extra
        if connection.conn_type and connection.conn_type.lower() not in ("ssh", "sftp"):
            raise UserError(
                f"connection {self.conn_id}: found type {connection.conn_type!r}; expected ssh, "
                f"for node {self.node} of cluster {self.cluster.name}"
            )
        port = self.own_port or connection.port or SSH_PORT
        if not 1 <= port <= 65535:
            raise UserError(
                f"connection {self.conn_id}: port: found {str(port)[:50]!r}; expected 1 to 65535"
            )
        keys = [str(extra["private_key"])] if extra.get("private_key") else []
        if extra.get("key_file"):
            keys.append(_path(extra["key_file"]))
        certificates = [extra[name] for name in CERTIFICATES if extra.get(name)]
        return SshTarget(
            node=self.node,
            host=self.host,
            port=port,
            user=_user(self.own_user or connection.login or None, self.conn_id),
            known_hosts=self._known_hosts(extra, port),
            client_keys=tuple(keys),
            passphrase=extra.get("private_key_passphrase") or extra.get("passphrase") or None,
            password=connection.password or None,
            certificates=tuple(_path(one) for one in certificates),
            agent=_agent(extra, self.conn_id),
            python=self.cluster.environments.python,
            slurm=self.cluster.slurm,
            jump=jump,
        )

    def _known_hosts(self, extra: Mapping[str, Any], port: int) -> str | bytes:
        """The host keys: the cluster's file, then the Connection's, then the user's own.

        `no_host_key_check` of the Connection is not honoured: measured numbers and a user's keys
        go to a host that has proved who it is, or nowhere.
        """
        cluster, conn_id = self.cluster, self.conn_id
        if cluster.known_hosts:
            return _file(cluster.known_hosts, f"cluster {cluster.name}: known_hosts")
        written = str(extra.get("known_hosts") or "").strip()
        if written and written.lower() != "none":
            if any(kind in written for kind in (" ssh-", " ecdsa-", " sk-")):
                return written.encode()
            return _file(written, f"connection {conn_id}: known_hosts")
        host_key = str(extra.get("host_key") or "").strip()
        if host_key:
            kind = _kind_of_key(host_key)
            if kind is None:
                raise UserError(
                    f"connection {conn_id}: host_key: found a key that begins {host_key[:12]!r}; "
                    "expected type and key, as in `ssh-ed25519 AAAA…`"
                )
            names = ",".join(dict.fromkeys([self.host, f"[{self.host}]:{port}"]))
            return f"{names} {kind} {host_key.split()[1]}\n".encode()
        own = Path("~/.ssh/known_hosts").expanduser()
        if own.is_file():
            return str(own)
        raise UserError(
            f"node {self.node} ({self.host}:{port}) of cluster {cluster.name}: no host key is "
            "known. Set known_hosts in the cluster's YAML and fill that file with `nightbench "
            f"cluster scan {cluster.name}`. Or print the key with `ssh-keyscan -p {port} "
            f"{self.host}` and compare it with the host's console. Then put it into that file, or "
            f"as host_key (`ssh-ed25519 AAAA…`) into the extra of connection {conn_id}"
        )


def _kind_of_key(host_key: str) -> str | None:
    """Return the type that is written in a key itself; None if it is no key.

    Airflow's own hook calls every ECDSA key `ssh-ecdsa`, which no known_hosts file does.
    """
    words = host_key.split()
    if len(words) < 2 or not words[0].startswith(KEY_TYPES):
        return None
    try:
        blob = base64.b64decode(words[1], validate=True)
    except ValueError:
        return None
    length = int.from_bytes(blob[:4])
    kind = blob[4 : 4 + length].decode("ascii", errors="replace")
    return kind if len(blob) > 4 + length and kind.startswith(KEY_TYPES) else None


def _user(login: str | None, conn_id: str) -> str | None:
    """The login name; its characters are checked here, as a Connection takes any text."""
    if login is not None and not USER.match(login):
        raise UserError(
            f"connection {conn_id}: login: found {login[:80]!r}; expected a user name of letters, "
            'digits, ".", "_", "-", "@", "+" and "\\"'
        )
    return login


def _agent(extra: Mapping[str, Any], conn_id: str) -> str | None:
    """The agent's socket: "" stands for SSH_AUTH_SOCK, None for no agent."""
    wanted, socket = extra.get("agent"), extra.get("agent_socket")
    if isinstance(wanted, str) and wanted.lower() in ("true", "false"):
        wanted = wanted.lower() == "true"
    if wanted not in (None, True, False):
        raise UserError(
            f"connection {conn_id}: agent: found {str(wanted)[:80]!r}; expected true or false"
        )
    if wanted is False or not (wanted or socket):
        return None
    return os.path.expanduser(str(socket)) if socket else ""


def _path(written: object) -> str:
    """A path with its `~` replaced, or the text of a certificate as it is."""
    text = str(written)
    return text if "-cert-v01@openssh.com " in text else os.path.expanduser(text)


def _file(written: str, what: str) -> str:
    path = os.path.expanduser(written)
    if not os.path.isfile(path):
        raise UserError(
            f"{what}: found {written!r}, which does not exist; expected a file in the format of "
            "ssh-keyscan"
        )
    return path


def _pod_targets(
    cluster: Cluster, policy: KubernetesPolicy, connection: PlainConnection
) -> dict[str, PodTarget]:
    conn_id = policy.conn_id
    if (connection.conn_type or "kubernetes").lower() != "kubernetes":
        raise UserError(
            f"connection {conn_id}: found type {connection.conn_type!r}; expected kubernetes, for "
            f"cluster {cluster.name}"
        )
    # Airflow's form stores empty fields, too.
    extra = {key: value for key, value in connection.extra.items() if value}
    if is_on(extra.get("disable_verify_ssl")):
        raise UserError(
            f"connection {conn_id}: found disable_verify_ssl; expected the server's certificate "
            "authority in the kubeconfig"
        )
    text, path = extra.get("kube_config"), extra.get("kube_config_path")
    access = ApiAccess(
        conn_id,
        in_cluster=is_on(extra.get("in_cluster")),
        path=os.path.expanduser(str(path)) if path else None,
        text=text if text is None or isinstance(text, str) else json.dumps(text),
        context=str(extra["cluster_context"]) if extra.get("cluster_context") else None,
    )
    python, shared = cluster.environments.python, cluster.shared
    return {
        node.name: PodTarget(node.name, access, policy, python, shared) for node in cluster.nodes
    }
