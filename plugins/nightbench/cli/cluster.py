"""cluster: generate the YAML of a cluster, scan host keys, and download wheels for its nodes."""

from __future__ import annotations

import asyncio
import dataclasses
import platform
import sys
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nightbench.cli import common
from nightbench.cli.common import FAILED, out, say
from nightbench.config import load_cluster
from nightbench.config.inventory import ansible_hosts, cluster_yaml, slurm_hosts
from nightbench.config.locations import cluster_file
from nightbench.core.errors import UserError
from nightbench.core.pod_manifests import rights
from nightbench.core.variants import machines_for, variant_of

if TYPE_CHECKING:
    from nightbench.core.model import Cluster
    from nightbench.gang import SshTarget
    from nightbench.gang.hostkeys import HostKey

app = typer.Typer(help="Create a cluster's YAML file, host keys and wheels.", no_args_is_help=True)

AT_ONCE = 16
"""Hosts that are scanned at the same time."""


class Inventory(StrEnum):
    """The kinds of inventory that list the nodes of a cluster."""

    ANSIBLE = "ansible"
    SLURM = "slurm"


_STYLES = {"new": "yellow", "same": "green", "by authority": "green"}


@app.command("from")
def from_inventory(
    source: Annotated[Inventory, typer.Argument(help="Format of the inventory.")],
    cluster: Annotated[str, typer.Argument(help="Name of the cluster.")],
    ssh_conn_id: Annotated[
        str, typer.Option(metavar="ID", help="Airflow Connection with user and key.")
    ],
    file: Annotated[
        typer.FileText, typer.Option("--file", "-f", help="Inventory file to read.")
    ] = "-",  # type: ignore[assignment]  # opened by typer
    group: Annotated[
        str, typer.Option("--group", "-g", help="Ansible group whose hosts to include.")
    ] = "all",
    login: Annotated[
        str | None,
        typer.Option(
            metavar="HOST",
            help="Slurm's login node, which launches gangs; --ssh-conn-id is its Connection.",
        ),
    ] = None,
) -> None:
    """Print the YAML of a cluster from Ansible's or Slurm's list of nodes.

    For Ansible, FILE has the output of `ansible-inventory -i FILE --list`. For Slurm, FILE has the
    output of `sinfo -hN -p PARTITION -o '%N %o %G'`.
    """
    text = file.read()
    hosts = ansible_hosts(text, group) if source is Inventory.ANSIBLE else slurm_hosts(text)
    if login is not None and source is not Inventory.SLURM:
        raise UserError(f'--login: found with "{source}"; expected only with "slurm"')
    print(cluster_yaml(cluster, hosts, ssh_conn_id, login), end="")


@app.command()
def scan(
    cluster: common.ClusterArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Store keys without asking.")] = False,
    replace: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE",
            help="Also accept the changed key of this node or jump host.",
        ),
    ] = None,
) -> None:
    """Show the host keys of all nodes and jump hosts, and store new keys in known_hosts.

    A changed key is accepted only if --replace names its node.

    Exit codes:

    - 0: every host answered, and its keys are in known_hosts.
    - 1: a host did not answer, a key has changed, or new keys were not accepted.
    """
    where = _cluster_of(cluster)
    assert where.known_hosts is not None
    file = Path(where.known_hosts)
    scanning = _Scan(where, file, frozenset(replace or ()), yes)
    if not scanning.run():
        raise typer.Exit(FAILED)


def _cluster_of(name: str) -> Cluster:
    path = cluster_file(name, files=True)
    found = load_cluster(path, catalog=common.catalog(), new_known_hosts=True)
    if found.known_hosts is None:
        raise UserError(
            f"cluster {found.name}: found no file for host keys. Add the line `known_hosts: "
            f"{found.name}.known_hosts` to {path}, then scan again"
        )
    return found


class _Scan:
    """A scan of host keys; jump hosts come before the nodes behind them."""

    def __init__(self, cluster: Cluster, file: Path, replace: frozenset[str], yes: bool) -> None:
        self._cluster = cluster
        self._file = file
        self._replace = replace
        self._yes = yes
        self._text = _text(file)
        self._good = True

    def run(self) -> bool:
        """Scan all hosts; return False if one did not answer or a key was refused."""
        from nightbench.gang import SshTarget

        with tempfile.TemporaryDirectory(prefix="nightbench-scan-") as folder:
            working = Path(folder) / "known_hosts"
            working.write_text(self._text, encoding="utf-8")
            # Logins to jump hosts accept only the host keys that are already known.
            cluster = dataclasses.replace(self._cluster, known_hosts=str(working))
            reached = common.targets(cluster)
            targets = {k: each for k, each in reached.items() if isinstance(each, SshTarget)}
            levels = _levels(targets)
            names = sorted({name for level in levels for name in level})
            for name in self._replace - set(names):
                raise UserError(
                    f"--replace: found {name[:100]!r}; expected nodes or jump hosts of the "
                    f"cluster: {', '.join(names)}"
                )
            for number, level in enumerate(levels):
                if not asyncio.run(self._level(level)):
                    behind = [name for later in levels[number + 1 :] for name in later]
                    if behind:
                        say(f"Not scanned, because a jump host is not known: {', '.join(behind)}")
                    return False
                working.write_text(self._text, encoding="utf-8")
        return self._good

    async def _level(self, targets: dict[str, SshTarget]) -> bool:
        """Scan hosts at one number of hops; return False if those behind them cannot be reached."""
        from nightbench.gang import hostkeys

        slots = asyncio.Semaphore(AT_ONCE)

        async def ask(target: SshTarget) -> list[HostKey] | UserError:
            async with slots:
                try:
                    return await hostkeys.host_keys(target)
                except UserError as error:
                    return error

        answers = await asyncio.gather(*(ask(target) for target in targets.values()))
        asked = list(zip(targets.items(), answers, strict=True))
        out.print(_table(asked))
        accepted: list[HostKey] = []
        for (name, _), answer in asked:
            if isinstance(answer, UserError):
                self._good = False
                say(str(answer))
                continue
            accepted += self._acceptable(name, answer)
        return not accepted or self._keep(accepted)

    def _acceptable(self, name: str, keys: Sequence[HostKey]) -> list[HostKey]:
        from nightbench.gang.hostkeys import Status

        accepted = [key for key in keys if key.status is Status.NEW]
        bad = [key for key in keys if key.status in (Status.CHANGED, Status.REVOKED)]
        for key in bad:
            if key.status is Status.CHANGED and name in self._replace:
                accepted.append(key)
                continue
            self._good = False
            out.print(
                f"[bold red]{escape(name)}: the {key.kind} host key is {key.status.value}.[/] The "
                "connection may be intercepted. No key of this host was accepted. If the host "
                "was reinstalled, compare the fingerprint with its console, then add --replace "
                f"{escape(name)}",
                soft_wrap=True,
            )
        taken = name in self._replace and all(key.status is Status.CHANGED for key in bad)
        return accepted if not bad or taken else []

    def _keep(self, keys: Sequence[HostKey]) -> bool:
        from nightbench.gang import hostkeys

        hosts = len({key.name for key in keys})
        what = f"{len(keys)} key{'s' if len(keys) > 1 else ''} of "
        what += f"{hosts} host{'s' if hosts > 1 else ''}"
        say(
            "Compare the fingerprints with the hosts' own consoles (ssh-keygen -l -f "
            "/etc/ssh/ssh_host_ed25519_key.pub) before you accept them."
        )
        if not self._yes:
            if not sys.stdin.isatty():
                say(f"Not written, because no terminal can confirm: {what}. Use --yes.")
                return False
            if not typer.confirm(f"Write {what} to {self._file}?"):
                return False
        self._text = hostkeys.merged(self._text, keys)
        hostkeys.save(self._file, self._text)
        say(f"Written to {self._file}: {what}")
        return True


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error


def _levels(targets: dict[str, SshTarget]) -> list[dict[str, SshTarget]]:
    """Return jump hosts and nodes by the number of hops before them, each host once."""
    levels: dict[int, dict[str, SshTarget]] = {}
    seen: set[tuple[str, int, int]] = set()
    for name, target in targets.items():
        for depth, hop in enumerate(target.jump):
            if (hop.host, hop.port, depth) not in seen:
                seen.add((hop.host, hop.port, depth))
                there = dataclasses.replace(hop, node=hop.host, jump=target.jump[:depth])
                level = levels.setdefault(depth, {})
                level[hop.host if hop.host not in level else hop.address] = there
        levels.setdefault(len(target.jump), {})[name] = target
    return [levels[depth] for depth in sorted(levels)]


def _table(asked: Sequence[tuple[tuple[str, SshTarget], list[HostKey] | UserError]]) -> Table:
    rows: list[tuple[str | Text, ...]] = []
    for (name, target), answer in asked:
        if isinstance(answer, UserError):
            rows.append((name, target.address, "-", "-", Text("no answer", style="red")))
            continue
        for key in answer:
            status = Text(key.status.value, style=_STYLES.get(key.status.value, "bold red"))
            if key.known:
                status.append(f" (known: {key.known})", style="default")
            rows.append((name, target.address, key.kind, key.fingerprint, status))
    return common.table(("node", "address", "kind", "fingerprint", "known_hosts"), rows)


@app.command()
def download(
    cluster: common.ClusterArgument,
    line: Annotated[list[str], typer.Option("--line", "-l", help="Framework line. Repeatable.")],
    machine: Annotated[
        list[str] | None,
        typer.Option(
            help="CPU architecture of nodes, as `uname -m` prints it. Repeatable option. [default: "
            "the architectures of the nodes]",
        ),
    ] = None,
    python: Annotated[
        list[str] | None,
        typer.Option(
            help="Python version of nodes, for example 3.13. Repeatable option. [default: all "
            "Pythons of the line's lock]",
        ),
    ] = None,
) -> None:
    """Download the wheels that framework lines need into the cluster's wheelhouse.

    Existing wheels are kept; every file is checked against the lock's hashes. If nodes have another
    CPU architecture than this machine, uv's wheel is downloaded, too.
    """
    from nightbench.gang.uv_binary import download_uv
    from nightbench.gang.wheels import download_wheels

    known = common.catalog()
    where = common.cluster_of(cluster, known)
    house = where.environments.wheelhouse
    if house is None:
        raise UserError(
            f"cluster {where.name}: found no wheelhouse. Add `environments: {{wheelhouse: "
            "FOLDER}` to its file and create the folder"
        )
    shipment, machines = common.shipment(where), machine or _machines(where)
    for other in machines:
        if other != platform.machine() and shipment.uv is not None:
            download_uv(Path(house), other, shipment.uv_version)
            say(f"uv {shipment.uv_version} for {other}: in {house}")
    for each in line:
        if each not in known.frameworks:
            raise UserError(
                f"--line: found {each[:100]!r}; expected one of {', '.join(known.frameworks)}"
            )
        variant = variant_of(known.frameworks[each], where, {})
        if not isinstance(variant, str):
            raise UserError(f"--line {each}: {variant.message}")
        able = machines_for(known.frameworks[each], where, {})
        for chosen in machines:
            if able is not None and chosen not in able:
                have = ", ".join(sorted(able))
                say(f"{each} {variant}: found wheels for {have}; expected {chosen}")
                continue
            choice = Path(house), shipment.benchmarks, each, variant, chosen, say
            files = download_wheels(*choice, python or ())
            size = sum(file.path.stat().st_size for file in files)
            wheels = f"{len(files)} wheels for {chosen}, {size / 1e6:.0f} MB, in {house}"
            say(f"{each} {variant}: {wheels}")


def _machines(where: Cluster) -> list[str]:
    """Return the CPU architectures of a cluster's nodes, from its file or from the nodes."""
    from nightbench.gang.provisioning import machines_of_nodes

    stated = [node.machine for node in where.nodes if node.machine is not None]
    if stated:
        return sorted(set(stated))
    try:
        found = asyncio.run(machines_of_nodes(where, common.targets(where)))
    except UserError as error:
        raise UserError(
            f"the CPU architecture of the nodes is unknown: {error}. Set `machine` for the nodes "
            "in the cluster's file, or use --machine"
        ) from error
    return sorted(set(found.values()))


@app.command()
def manifests(
    cluster: common.ClusterArgument,
    account: Annotated[
        str, typer.Option(help="Service account that Nightbench uses.")
    ] = "nightbench",
) -> None:
    """Print Role, RoleBinding and NetworkPolicy for a cluster that uses pods as nodes."""
    where = common.cluster_of(cluster)
    if where.kubernetes is None:
        raise UserError(f"cluster {where.name}: found no section kubernetes in the cluster's file")
    print(
        yaml.safe_dump_all(rights(where.name, where.kubernetes, account), sort_keys=False), end=""
    )
