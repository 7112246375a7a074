"""A cluster on one machine: nodes that speak real SSH, served by one unprivileged process.

Node i is 127.0.0.1 + i on a common port, named n<i>, with a home folder of its own. A client sees
what OpenSSH would show: exec with environment, keys only, and a job without a terminal that
outlives its channel. There is no SFTP, no signal and no terminal (pty) support.

    python -m nightbench.local.local_cluster --home .nightbench --nodes 2 --port 2222
"""

import argparse
import asyncio
import contextlib
import getpass
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import asyncssh

PASSED = frozenset({"LANG", "LANGUAGE", "TZ", "TMPDIR", "SHELL", "LD_LIBRARY_PATH", "PYENV_ROOT"})
PASSED_PREFIXES = ("LC_", "PIP_", "UV_", "SSL_CERT_", "NVIDIA_", "CUDA_")
PASSED_SUFFIXES = ("_proxy", "_PROXY", "_CA_BUNDLE")


@dataclass(frozen=True)
class LocalNode:
    """One node: its name, address, home folder, and the core that its commands are pinned to."""

    name: str
    host: str
    home: Path
    core: int | None


def address_of(number: int) -> str:
    """Return the address of the node with a number, from 1: loopback's 127.0.0.0/8 has room."""
    return str(IPv4Address("127.0.0.1") + number)


def _login_environment(source: Mapping[str, str], user_home: Path, cache: Path) -> dict[str, str]:
    """Return the environment of a login, from the server's own.

    As under OpenSSH little of the server's environment is passed on, so that no secret of the
    control plane reaches a job. The settings of pip, uv and pyenv are, with the user's own
    folders named in full, because a node's HOME is another one.
    """
    env = {
        key: value
        for key, value in source.items()
        if key in PASSED or key.startswith(PASSED_PREFIXES) or key.endswith(PASSED_SUFFIXES)
    }
    path = source.get("PATH", os.defpath).split(os.pathsep)
    virtual_env = source.get("VIRTUAL_ENV")
    own = {str(Path(sys.executable).parent), f"{virtual_env}/bin" if virtual_env else ""}
    env["PATH"] = os.pathsep.join(p for p in path if p and p not in own)
    env["USER"] = env["LOGNAME"] = getpass.getuser()
    env.setdefault("SHELL", "/bin/sh")
    env["UV_CACHE_DIR"] = str(cache / "uv")
    managed = user_home / ".local/share/uv/python"
    env.setdefault("UV_PYTHON_INSTALL_DIR", str(managed if managed.is_dir() else cache / "python"))
    if (user_home / ".pyenv").is_dir():
        env.setdefault("PYENV_ROOT", str(user_home / ".pyenv"))
    for config in (user_home / ".config/pip/pip.conf", user_home / ".pip/pip.conf"):
        if config.is_file():
            env.setdefault("PIP_CONFIG_FILE", str(config))
    return env


class LocalCluster:
    """The listening nodes.

    Keys, known_hosts and the nodes' homes are in `<home>/cluster`. With `pin` each node's commands
    run on a core of its own, shared if cores are too few.
    """

    def __init__(self, home: Path, nodes: int, port: int, pin: bool = True) -> None:
        self.folder = home.resolve() / "cluster"
        self.port = port
        cores = sorted(os.sched_getaffinity(0))
        self.nodes = [
            LocalNode(
                name=f"n{i}",
                host=address_of(i),
                home=self.folder / f"n{i}",
                core=cores[(i - 1) % len(cores)] if pin else None,
            )
            for i in range(1, nodes + 1)
        ]
        user_home = Path.home()
        self._environment = _login_environment(os.environ, user_home, home.resolve() / "cache")
        self._listeners: list[asyncssh.SSHAcceptor] = []

    async def start(self) -> None:
        """Write keys and known_hosts, listen, then write server.json."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        client = self._key("id_ed25519")
        authorized = asyncssh.import_authorized_keys(client.export_public_key().decode())
        known = []
        for node in self.nodes:
            node.home.mkdir(mode=0o700, exist_ok=True)
            host_key = self._key(f"{node.name}_host_ed25519")
            public = " ".join(host_key.export_public_key().decode().split()[:2])
            known.append(f"[{node.host}]:{self.port} {public}\n")
            self._listeners.append(
                await asyncssh.listen(
                    node.host,
                    self.port,
                    server_host_keys=[host_key],
                    authorized_client_keys=authorized,
                    process_factory=partial(self._execute, node),
                    encoding=None,
                    line_editor=False,
                    allow_pty=False,
                    agent_forwarding=False,
                    password_auth=False,
                    kbdint_auth=False,
                    host_based_auth=False,
                    gss_host=None,
                    login_timeout=30,
                    reuse_address=True,
                )
            )
        self._write("known_hosts", "".join(known))
        login = {"port": self.port, "user": getpass.getuser()}
        self._write("server.json", json.dumps(login) + "\n")

    async def stop(self) -> None:
        """Stop listening and close all connections; jobs continue, as under OpenSSH."""
        for listener in self._listeners:
            listener.close()
        await asyncio.gather(*(listener.wait_closed() for listener in self._listeners))
        (self.folder / "server.json").unlink(missing_ok=True)

    def _key(self, name: str) -> asyncssh.SSHKey:
        path = self.folder / name
        if not path.exists():
            key = asyncssh.generate_private_key("ssh-ed25519", comment=f"nightbench {name}")
            self._write(name, key.export_private_key().decode(), mode=0o600)
            self._write(f"{name}.pub", key.export_public_key().decode())
        return asyncssh.read_private_key(str(path))

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        beside = self.folder / f".{name}.{os.getpid()}"
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
        beside.rename(self.folder / name)

    async def _execute(self, node: LocalNode, request: asyncssh.SSHServerProcess[bytes]) -> None:
        client, server = request.get_extra_info("peername"), request.get_extra_info("sockname")
        env = {
            **self._environment,
            **request.env,
            "HOME": str(node.home),
            "NODE_NAME": node.name,
            "SSH_CONNECTION": f"{client[0]} {client[1]} {server[0]} {server[1]}",
        }
        shell = ["/bin/bash"] if os.path.exists("/bin/bash") else ["/bin/sh"]
        command = request.command

        def pin() -> None:
            if node.core is not None:
                os.sched_setaffinity(0, {node.core})

        # Not asyncio's subprocess, which it would kill when the loop ends.
        job = subprocess.Popen(
            [*shell, *(["-c", command] if command else ["-l"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=env,
            cwd=node.home,
            start_new_session=True,
            preexec_fn=pin,
        )
        await request.redirect(stdout=job.stdout, stderr=job.stderr, send_eof=False)
        feeding = asyncio.create_task(_feed(request.stdin, job))
        # The exit status is sent after the last output, also that of the job's children that hold
        # its pipes; a client that disconnects ends this wait and nothing else.
        with contextlib.suppress(BrokenPipeError, asyncssh.Error):
            await asyncio.gather(request.stdout.drain(), request.stderr.drain())
            while (status := job.poll()) is None:
                await asyncio.sleep(0.01)
            if status < 0:
                request.exit_with_signal(signal.Signals(-status).name[3:])
            else:
                request.exit(status)
        await request.wait_closed()
        feeding.cancel()


async def _feed(source: asyncssh.SSHReader[bytes], job: subprocess.Popen[bytes]) -> None:
    """Write the client's input to the job; asyncssh's redirect would lose its end."""
    loop = asyncio.get_running_loop()
    pipe, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), job.stdin
    )
    sink = asyncio.StreamWriter(pipe, protocol, None, loop)
    try:
        with contextlib.suppress(OSError, asyncssh.Error):  # the job reads no more, or a signal
            while chunk := await source.read(65536):
                sink.write(chunk)
                await sink.drain()
    finally:
        sink.close()


async def serve(home: Path, nodes: int, port: int, pin: bool) -> None:
    """Serve until SIGTERM or SIGINT; prints `ready` once every node answers."""
    asyncssh.set_log_level("WARNING")
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    cluster = LocalCluster(home, nodes, port, pin)
    await cluster.start()
    print("ready", flush=True)
    await ended.wait()
    await cluster.stop()


def main(argv: list[str] | None = None) -> int:
    """The command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="nightbench.local.local_cluster", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="state folder")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(
        "--cores",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="pin each node's commands to a core of its own",
    )
    options = parser.parse_args(argv)
    try:
        asyncio.run(serve(options.home, options.nodes, options.port, options.cores))
    except OSError as error:
        print(f"local cluster on port {options.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
