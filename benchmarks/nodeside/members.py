"""The machines of one case that share a folder: each runs the agent of its node, one leads.

    nodes/<node>/here.json   where a machine waits for the lead: host, port, token

Commands, states and results are files in the shared folder. What files cannot carry goes over one
TCP connection from the lead to each other machine: readings of its clock, the start of its agent,
and that it is still there.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import socketserver
import threading
import time
from typing import Any

from nodeside import agent_start
from nodeside.files import AgentError, read_json, write_json, write_text

ANSWER_S = 20.0
"""Time limit of one answer; a machine that needs longer is gone."""

RESOLVE_S = 120.0
"""Time in which the name of this machine must resolve: a pod's appears after the pod."""

READINGS = 16
"""Of a clock, for one offset: the one with the shortest round trip counts."""


class Member:
    """The node that this process serves.

    Args:
        folder: its job directory.
        node: its name in the job.
        python: interpreter of the framework.
        agent_file: path of agent.py.
    """

    def __init__(self, folder: str, node: str, python: str, agent_file: str) -> None:
        self.folder = folder
        self.node = node
        self._agent_file = agent_file
        self._pid: int | None = None
        os.makedirs(folder, exist_ok=True)
        write_text(os.path.join(folder, "python"), python + "\n")

    def start(self) -> None:
        """Start the agent, unless it runs.

        Raises:
            AgentError: it cannot be started.
        """
        self._pid = agent_start.start(self.folder, self.node, self._agent_file)["pid"]

    def is_running(self) -> bool:
        """Return whether an agent serves the job directory."""
        return agent_start.is_served(self.folder)

    def clock(self) -> tuple[float, float]:
        """Return offset and error of the node's monotonic clock against the lead's, s."""
        return 0.0, 0.0

    def signal(self, number: int) -> None:
        """Send the agent a signal; it ends its processes and leaves."""
        if self._pid is not None and self.is_running():
            os.kill(self._pid, number)

    def close(self) -> None:
        """Nothing is open."""


class _Requests(socketserver.StreamRequestHandler):
    """One connection of the lead: a token, then a request on each line, a document for each."""

    server: MemberServer

    def handle(self) -> None:
        token = self.rfile.readline(256).decode("utf-8", "replace").strip()
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return
        member = self.server.member
        for line in iter(lambda: self.rfile.readline(64), b""):
            request = line.decode("utf-8", "replace").strip()
            answer: dict[str, Any] = {"monotonic_s": time.monotonic()}
            try:
                if request == "start":
                    member.start()
                elif request == "running":
                    answer["running"] = member.is_running()
            except AgentError as error:
                answer["error"] = str(error)
            self.wfile.write((json.dumps(answer) + "\n").encode())


class MemberServer(socketserver.ThreadingTCPServer):
    """Waits for the lead at the node's data address, and says so in here.json.

    Args:
        member: the node.
        address: its `data_address`.
        port_range: ports that it may listen on.

    Raises:
        AgentError: the address is none of this machine, or no port is free.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, member: Member, address: str, port_range: tuple[int, int]) -> None:
        self.member = member
        self.token = secrets.token_hex(16)
        family, host = _resolve(address)
        self.address_family = family
        for port in range(port_range[0], port_range[1] + 1):
            try:
                super().__init__((host, port), _Requests)
                break
            except OSError as error:
                refused = error
        else:
            raise AgentError(
                "node {}: cannot listen on {}: {}".format(member.node, address, refused),
                "set `data_address` and `port_range` of this node to what it has",
            )
        path = os.path.join(member.folder, "here.json")
        previous = os.umask(0o077)
        try:
            write_json(path, {"host": host, "port": self.server_address[1], "token": self.token})
        finally:
            os.umask(previous)

    def serve_in_background(self) -> None:
        """Answer requests until this process ends."""
        threading.Thread(target=self.serve_forever, daemon=True).start()


def _resolve(address: str) -> tuple[socket.AddressFamily, str]:
    """Return family and address of a name, which may still be unknown for a while."""
    until_s = time.monotonic() + RESOLVE_S
    while True:
        try:
            family, _, _, _, target = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
            return family, str(target[0])
        except socket.gaierror as error:
            if time.monotonic() > until_s:
                raise AgentError(
                    "data_address {} does not resolve here: {}".format(address, error),
                    "set `data_address` of this node to an address that it has",
                ) from error
        time.sleep(1.0)


class MemberGone(Exception):
    """The host of a node does not answer, or another process serves the node now."""


class RemoteMember:
    """A node of the case that another machine serves, as the lead sees it.

    Args:
        folder: the node's job directory, in the shared folder.
        node: its name in the job.
    """

    def __init__(self, folder: str, node: str) -> None:
        self.folder = folder
        self.node = node
        self._connection: socket.socket | None = None
        self._lines: Any = None

    def connect(self) -> bool:
        """Connect to the host; return False if it is not there yet."""
        if self._connection is not None:
            return True
        here = read_json(os.path.join(self.folder, "here.json"))
        if not isinstance(here, dict):
            return False
        try:
            opened = socket.create_connection((here["host"], here["port"]), ANSWER_S)
        except OSError:
            return False
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection, self._lines = opened, opened.makefile("rb")
        try:
            opened.sendall((str(here["token"]) + "\n").encode())
            self._ask("clock")
        except (OSError, MemberGone):
            self.close()  # what listens there now is another machine, or an earlier process
            return False
        return True

    def start(self) -> None:
        """Start the agent, unless it runs.

        Raises:
            MemberGone: the machine does not answer.
            AgentError: it cannot be started.
        """
        answer = self._ask("start")
        if answer.get("error"):
            raise AgentError("node {}: {}".format(self.node, answer["error"]))

    def is_running(self) -> bool:
        """Return whether an agent serves the job directory.

        Raises:
            MemberGone: the machine does not answer.
        """
        return bool(self._ask("running")["running"])

    def clock(self) -> tuple[float, float]:
        """Return offset and error of the node's monotonic clock against the lead's, s.

        Raises:
            MemberGone: the machine does not answer.
        """
        best = (0.0, float("inf"))
        for _ in range(READINGS):
            sent = time.monotonic()
            there = float(self._ask("clock")["monotonic_s"])
            received = time.monotonic()
            if received - sent < 2 * best[1]:
                best = (there - (sent + received) / 2, (received - sent) / 2)
        return best

    def close(self) -> None:
        """Close the connection; the next `connect` opens another one."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._lines = None

    def _ask(self, request: str) -> dict[str, Any]:
        if self._connection is None:
            raise MemberGone(self.node)
        try:
            self._connection.sendall((request + "\n").encode())
            answer = json.loads(self._lines.readline().decode())
        except (OSError, ValueError) as error:
            self.close()
            raise MemberGone("{}: {}".format(self.node, error)) from error
        return dict(answer)
