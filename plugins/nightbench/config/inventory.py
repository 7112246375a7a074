"""Turns what other tools know of a cluster's nodes into the YAML of a cluster. Pure.

Ansible's inventory comes as `ansible-inventory --list` prints it, Slurm's nodes as
`sinfo -hN -o '%N %o %G'` does: both read their own files better than we could.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from nightbench.core.errors import UserError
from nightbench.core.printable import shown

_SSH = frozenset({"ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh"})
_GPUS = re.compile(r"(?:^|,)gpu(?::([^:,()]+))?:(\d+)")


@dataclass(frozen=True)
class Host:
    """A node as an inventory knows it."""

    name: str
    address: str
    port: int | None = None
    user: str | None = None
    gpus: int = 0
    """How many it has; 0 if that is not known."""


def ansible_hosts(text: str, group: str) -> list[Host]:
    """Return the hosts of a group and of the groups in it, in the inventory's order.

    Raises:
        UserError: it is no such text, has no such group, or a host is not reached by SSH.
    """
    try:
        document = json.loads(text)
        variables: Mapping[str, Any] = document["_meta"]["hostvars"]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            "found no inventory; expected the JSON that `ansible-inventory -i FILE --list` prints"
        ) from None
    groups = {name: each for name, each in document.items() if name != "_meta"}
    if group not in groups:
        raise UserError(
            f"--group: found {shown(group)}; expected one of {', '.join(sorted(groups))}"
        )
    return [_ansible_host(name, variables.get(name, {})) for name in _members(group, groups)]


def _members(group: str, groups: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    waiting = [group]
    while waiting:
        each = groups.get(waiting.pop(0), {})
        found |= dict.fromkeys(each.get("hosts", ()))
        waiting += each.get("children", ())
    return list(found)


def _ansible_host(name: str, variables: Mapping[str, Any]) -> Host:
    connection = variables.get("ansible_connection", "ssh")
    if connection not in _SSH:
        raise UserError(
            f"host {shown(name)}: found ansible_connection {shown(str(connection))}; expected ssh"
        )
    address, port, user = (
        variables.get(f"ansible_{key}", variables.get(f"ansible_ssh_{key}"))
        for key in ("host", "port", "user")
    )
    for key, value in (("host", address), ("port", port), ("user", user)):
        # ansible-inventory fills in no templates.
        if "{{" in str(value) or (key == "port" and not str(value or 22).isdecimal()):
            raise UserError(
                f"host {shown(name)}: found ansible_{key} {shown(str(value))}; expected a value"
            )
    host = str(address or name)
    if host.startswith("[") and host.endswith("]") and ":" in host:
        host = host[1:-1]  # an IPv6 address, which brackets would make a range of names
    return Host(name, host, int(port) if port else None, user)


def slurm_hosts(text: str) -> list[Host]:
    """Return the nodes of a partition, each once.

    The text is what `sinfo -hN -o '%N %o %G'` printed, for one partition by `-p`.

    Raises:
        UserError: a line is another one.
    """
    found: dict[str, Host] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if len(words) != 3:
            raise UserError(
                f"line {number}: found {shown(line)}; expected name, address and generic resources "
                "as `sinfo -hN -o '%N %o %G'` prints them"
            )
        gpus = _GPUS.findall(words[2])
        kinds = {kind for kind, _ in gpus}
        if len(kinds) > 1:
            raise UserError(
                f"line {number}: found devices of {len(kinds)} kinds on node {shown(words[0])} "
                f"({shown(words[2])}); expected one kind. Write `devices` of this cluster by "
                "hand: a part of a GPU (MIG) is not a GPU"
            )
        count = sum(int(count) for _, count in gpus)
        found[words[0]] = Host(words[0], words[1], gpus=count)
    return list(found.values())


def cluster_yaml(
    name: str, hosts: Sequence[Host], ssh_conn_id: str, login: str | None = None
) -> str:
    """Return the YAML of a cluster; hosts that differ by one rising number are one entry.

    `login` is the login node of Slurm, which is to launch the gangs.

    Raises:
        UserError: there is no host, or hosts have different numbers of GPUs.
    """
    if not hosts:
        raise UserError("found no hosts; expected at least one")
    counts = {host.gpus: host.name for host in hosts}
    if len(counts) > 1:
        said = ", ".join(f"{count} on {shown(where)}" for count, where in sorted(counts.items()))
        raise UserError(f"found different numbers of GPUs ({said}); expected one for all nodes")
    document: dict[str, Any] = {"cluster": name, "known_hosts": f"{name}.known_hosts"}
    if hosts[0].gpus:
        document["devices"] = {"kind": "gpu", "per_node": hosts[0].gpus}
    document["nodes"] = [_entry(each, ssh_conn_id, login) for each in _runs(hosts)]
    if login is not None:
        document["slurm"] = {"login": login}
        if hosts[0].gpus:
            document["slurm"]["options"] = [f"--gres=gpu:{hosts[0].gpus}"]
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _entry(hosts: Sequence[Host], ssh_conn_id: str, login: str | None) -> dict[str, Any]:
    names, addresses = map(_pattern, _columns(hosts))
    entry: dict[str, Any] = {"hosts": addresses if login is None else names}
    if names != addresses and login is None:
        entry["name"] = names
    elif names != addresses:
        entry["data_address"] = addresses
    entry["ssh_conn_id"] = ssh_conn_id
    entry |= {
        key: value
        for key, value in (("port", hosts[0].port), ("user", hosts[0].user))
        if value is not None
    }
    return entry


def _runs(hosts: Iterable[Host]) -> list[list[Host]]:
    """Return hosts one after another whose names and addresses rise together."""
    found: list[list[Host]] = []
    for host in hosts:
        longer = [*found[-1], host] if found else [host]
        same = {(each.port, each.user, each.name == each.address) for each in longer}
        if found and len(same) == 1 and all(map(_pattern, _columns(longer))):
            found[-1] = longer
        else:
            found.append([host])
    return found


def _columns(hosts: Sequence[Host]) -> tuple[list[str], list[str]]:
    return [host.name for host in hosts], [host.address for host in hosts]


def _pattern(words: Sequence[str]) -> str | None:
    """Return `gpu[01-04]` for words that differ by one number that rises by one, else None."""
    if len(words) == 1:
        return words[0]
    parts = [re.split(r"(\d+)", word) for word in words]
    if len({len(each) for each in parts}) > 1:
        return None
    changing = [place for place in range(len(parts[0])) if len({each[place] for each in parts}) > 1]
    if len(changing) != 1 or changing[0] % 2 == 0:
        return None
    place = changing[0]
    numbers = [each[place] for each in parts]
    width = len(numbers[0]) if numbers[0].startswith("0") else 0
    rising = range(int(numbers[0]), int(numbers[0]) + len(numbers))
    if numbers != [str(number).zfill(width) for number in rising]:
        return None
    before, behind = "".join(parts[0][:place]), "".join(parts[0][place + 1 :])
    return f"{before}[{numbers[0]}-{numbers[-1]}]{behind}"
