"""Judges the preflight of one node: findings with advice."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.core.model import Cluster, FrameworkInfo, Node
from nightbench.core.variants import Refusal, machines_for, variant_of
from nightbench.nodes import devices, refusals
from nightbench.nodes.node_preflight import Finding, FindingLevel, NodePreflight, info, warn
from nightbench.nodes.pod_findings import pod_findings

LEFT_OUT_BELOW = 0.2
"""Share of `health.min_disk` below which results and logs do not fit."""
JOB_ROOT_BYTES = 10**9
"""Logs and results of a night's jobs take some hundred MB at most."""
FEW_INODES = 100_000
"""An environment has about 20 000 files."""
NO_INODES = 10_000
LITTLE_SHM_BYTES = 256 * 2**20
"""NCCL takes about 10 MB for each device there, data loaders a batch for each worker."""
LITTLE_MEMLOCK_BYTES = 64 * 2**20
FEW_FILES = 1024
FEW_PROCESSES = 1024
RDMA = ("ib", "hsn", "roce")
"""Name prefixes of interfaces whose traffic needs locked memory."""
NAMED_BY = 40
"""Characters of a command that are shown."""
MUCH_SWAP = 0.10
LITTLE_MEMORY = 0.20


@dataclass(frozen=True)
class _CheckInput:
    """What a check can read."""

    seen: NodePreflight
    document: Mapping[str, Any]
    cluster: Cluster
    node: Node
    lines: Sequence[FrameworkInfo]


def findings(
    seen: NodePreflight, cluster: Cluster, lines: Sequence[FrameworkInfo] = ()
) -> tuple[Finding, ...]:
    """Judge one node.

    Interpreters and drivers are those that the lines expect.

    Returns:
        The most severe first; empty if nothing was found.
    """
    if seen.api is not None:
        return tuple(pod_findings(seen.api, cluster, lines))
    if seen.document is None:
        return (refusals.refusal(seen, cluster),)
    node = next((n for n in cluster.nodes if n.name == seen.node), None)
    if node is None:
        raise ValueError(f"cluster {cluster.name} has no node {seen.node}")
    given = _CheckInput(seen, seen.document, cluster, node, lines)
    checks = _CHECKS_OF_A_LOGIN_NODE if cluster.slurm else _CHECKS
    found = [finding for check in checks for finding in check(given)]
    order = (FindingLevel.FAIL, FindingLevel.WARN, FindingLevel.INFO)
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


# --- the root folder -----------------------------------------------------------------


def _root(given: _CheckInput) -> Iterator[Finding]:
    document = given.document
    if document["writable"] and not document["problem"]:
        return
    yield refusals.of_root(str(document["problem"] or "not writable"), document["root"])


def _job_root(given: _CheckInput) -> Iterator[Finding]:
    job_root = given.document["job_root"]
    if job_root is None:
        return
    if job_root["problem"]:
        yield refusals.of_root(job_root["problem"], job_root["path"], "job_root")
        return
    disk = job_root["disk"]
    free = disk["free_bytes"]
    if free < JOB_ROOT_BYTES:
        yield Finding(
            _level(free, JOB_ROOT_BYTES),
            "job_root",
            f"{_size(free)} free of {_size(disk['total_bytes'])}",
            f"{_size(JOB_ROOT_BYTES)} for logs and results of jobs in {job_root['path']}",
            "make room on this disk, or move environments.job_root to another disk; "
            f"`nightbench clean -c {given.cluster.name}` removes old jobs",
        )


def _disk(given: _CheckInput) -> Iterator[Finding]:
    disk, wanted = given.document["disk"], given.cluster.health.min_disk_bytes
    expected = f"{_size(wanted)} (health.min_disk)"
    free = disk["free_bytes"]
    if free < wanted:
        yield Finding(
            _level(free, wanted),
            "disk",
            f"{_size(free)} free of {_size(disk['total_bytes'])}",
            expected,
            "make room below environments.root, or move it to another disk; `nightbench clean -c "
            f"{given.cluster.name}` removes unused files",
        )
    quota = disk["quota"]
    left = max(0, quota["limit_bytes"] - quota["used_bytes"]) if quota is not None else wanted
    if left < wanted:
        yield Finding(
            _level(left, wanted),
            "quota",
            f"{_size(left)} left of {_size(quota['limit_bytes'])}",
            expected,
            "request a larger quota, or move environments.root to a file system without a quota",
        )
    inodes = disk["inodes_free"]
    if inodes is not None and inodes < FEW_INODES:
        yield Finding(
            FindingLevel.FAIL if inodes < NO_INODES else FindingLevel.WARN,
            "inodes",
            f"{inodes} free",
            f"{FEW_INODES} free or more: an environment has about 20000 files",
            "remove small files, or move environments.root to another disk",
        )


def _level(free: float, wanted: float) -> FindingLevel:
    return FindingLevel.FAIL if free < wanted * LEFT_OUT_BELOW else FindingLevel.WARN


def _shm(given: _CheckInput) -> Iterator[Finding]:
    free = given.document["shm_free_bytes"]
    if free is not None and free < LITTLE_SHM_BYTES:
        yield warn(
            "/dev/shm",
            f"{_size(free)} free",
            f"{_size(LITTLE_SHM_BYTES)}: collectives and data loaders use shared memory",
            "remount it with a larger size, or start a container with --shm-size=1g or --ipc=host",
        )


def _memory(given: _CheckInput) -> Iterator[Finding]:
    memory = given.document["memory"]
    total, available = memory["total_bytes"], memory["available_bytes"]
    if available < total * LITTLE_MEMORY:
        yield warn(
            "memory",
            f"{_size(available)} of {_size(total)} available",
            f"{LITTLE_MEMORY:.0%} or more",
            "end the process that uses most: `ps aux --sort -rss` on the node shows it first",
        )
    if memory["swap_used_bytes"] > total * MUCH_SWAP:
        yield warn(
            "swap",
            f"{_size(memory['swap_used_bytes'])} in use",
            "none: steps that wait for a disk are not measured correctly",
            "end the process that uses the memory, then `swapoff -a && swapon -a` as root",
        )


# --- the login ----------------------------------------------------------------------------


def _session(given: _CheckInput) -> Iterator[Finding]:
    session = given.document["session"]
    if session["kill_user_processes"]:
        linger = session["linger"]
        yield Finding(
            FindingLevel.WARN if linger else FindingLevel.FAIL,
            "KillUserProcesses",
            "logind ends all processes of a login when the login ends"
            + ("; lingering is on" if linger else "; lingering is off"),
            "a gang continues when the connection of its controller is cut",
            "as root, set KillUserProcesses=no or KillExcludeUsers=USER in "
            "/etc/systemd/logind.conf, then `systemctl restart systemd-logind`; if that is not "
            "allowed, `loginctl enable-linger USER`",
        )
    allocation = session["allocation"]
    if allocation["pam_slurm"] and not allocation["slurm_job"]:
        yield warn(
            "Slurm",
            "sshd admits only users with an allocation on the node (pam_slurm), and this login has "
            "none",
            "a login that remains possible all night",
            "keep an allocation on the nodes for the night (`salloc --no-shell`), or have the "
            "site exempt the user from pam_slurm_adopt",
        )


def _limits(given: _CheckInput) -> Iterator[Finding]:
    limits = given.document["limits"]
    raise_it = "raise the limit in /etc/security/limits.d (sshd must use PAM), then log in again"
    memlock = limits["memlock_bytes"]
    if memlock is not None and memlock < LITTLE_MEMLOCK_BYTES:
        links = [link["name"] for link in given.document["links"]]
        rdma = [name for name in links if name.startswith(RDMA)]
        asked = "ib" in (given.cluster.transport or "").split("/")
        if rdma or asked:
            yield Finding(
                FindingLevel.FAIL if asked else FindingLevel.WARN,
                "memlock",
                f"the limit of locked memory is {_size(memlock)}",
                "unlimited: InfiniBand registers its buffers; NCCL falls back to sockets or fails",
                f"`* hard memlock unlimited` and soft: {raise_it}",
            )
    for name, few in (("nofile", FEW_FILES), ("nproc", FEW_PROCESSES)):
        limit = limits[name]
        if limit is not None and limit < few:
            yield warn(f"limit {name}", str(limit), f"{few} or more", raise_it)


# --- what frameworks need -----------------------------------------------------------------


def _interpreters(given: _CheckInput) -> Iterator[Finding]:
    document, prepared = given.document, given.cluster.environments.paths
    built = {env["line"] for env in document["envs"]}
    here = {series for series, path in document["interpreters"].items() if path is not None}
    missing: dict[tuple[str, ...], list[str]] = {}
    for line in given.lines:
        variant = variant_of(line, given.cluster, {})
        if isinstance(variant, Refusal) or line.line in built or line.line in prepared:
            continue
        pythons = line.variants[variant].pythons
        if pythons and here.isdisjoint(pythons):
            missing.setdefault(pythons, []).append(line.line)
    for pythons, lines in sorted(missing.items()):
        yield warn(
            f"Python {' or '.join(pythons)}",
            "none on the PATH, among pyenv's or among uv's",
            f"one for {', '.join(sorted(lines))}",
            "uv downloads one if it reaches its server; otherwise install one (pyenv install "
            f"{pythons[-1]}), or prepare the environment yourself and set environments.paths",
        )


def _machine(given: _CheckInput) -> Iterator[Finding]:
    """A CPU architecture that is not the stated one, or that lines have no wheels for."""
    machine = given.document["cpu"]["machine"]
    if given.node.machine not in (None, machine):
        yield warn(
            "machine",
            machine,
            f"{given.node.machine}, as the cluster's file states",
            f"set `machine: {machine}` in that file; until then, no case is measured on this node",
        )
    able = {line.line: machines_for(line, given.cluster, {}) for line in given.lines}
    without = [name for name, found in able.items() if found is not None and machine not in found]
    if without:
        yield info(
            "wheels",
            f"none for {machine} of {', '.join(sorted(without))}",
            "wheels for the node's CPU architecture in each line's lock",
            "cases of these lines are unavailable on this node: leave the lines out, or prepare an "
            "environment (`environments.paths`) or an image (`environments.images`)",
        )


# --- time ---------------------------------------------------------------------------------


def _clock(given: _CheckInput) -> Iterator[Finding]:
    clock, wall, error = given.document["clock"], given.seen.wall, given.seen.wall_error_s
    limit = given.cluster.health.max_clock_error_s
    fix = "switch on time synchronisation (chrony, systemd-timesyncd)"
    if wall is not None and error is not None and error > limit:
        side = "ahead of" if wall.offset_s > 0 else "behind"
        yield warn(
            "clock",
            f"{_duration(error)} {side} the controller's clock",
            f"{_duration(limit)} at most (health.max_clock_error)",
            f"{fix}. Results are correct nevertheless: durations come from monotonic clocks, and "
            "dates come from the controller. Logs and files of the node have wrong dates",
        )
    elif clock["synchronised"] is False:
        yield warn(
            "clock",
            f"the clock is not synchronised (according to {clock['source'] or 'the node'})",
            "NTP",
            f"{fix}. Results are correct nevertheless",
        )


# --- others -------------------------------------------------------------------------------


def _foreign(given: _CheckInput) -> Iterator[Finding]:
    foreign, policy = given.document["foreign"], given.cluster.neighbours
    busy = foreign["cpu_share"] > policy.cpu_share
    on_gpu = [p for p in foreign["processes"] if p["gpu"]] if policy.gpu else []
    if not busy and not on_gpu:
        return
    meant = {
        "record": "they are recorded with the results",
        "wait": "a launch waits until they end, and fails after some time",
        "refuse": "nothing is launched while they run",
    }[policy.action]
    yield Finding(
        FindingLevel.INFO if policy.action == "record" else FindingLevel.WARN,
        "neighbours",
        f"other processes use {foreign['cpu_share']:.0%} of the CPU cores"
        + (f" and compute on {len(on_gpu)} GPUs" if on_gpu else "")
        + _busiest_processes(foreign["processes"]),
        f"{policy.cpu_share:.0%} at most (neighbours.cpu)"
        + (", and no GPU process" if on_gpu else ""),
        f"ask their users to stop them; {meant} (neighbours.action: {policy.action})",
    )


def _busiest_processes(processes: Sequence[Mapping[str, Any]]) -> str:
    busiest = sorted(processes, key=lambda p: -(p["cpu_share"] or 0.0))[:3]
    said = [
        f"{(p['command'] or 'a process')[:NAMED_BY]} of user {p['user'] or '?'} (pid {p['pid']})"
        for p in busiest
    ]
    return f": {', '.join(said)}" if said else ""


def _locked(given: _CheckInput) -> Iterator[Finding]:
    for holder in given.document["lock_holders"]:
        what = f"{holder['device']} of the node" if holder.get("device") else "the node"
        yield info(
            "lock",
            f"{holder.get('job_id') or 'another process'} of {holder.get('user') or '?'} at "
            f"{holder.get('controller') or '?'} locked {what} at {holder.get('since') or '?'}",
            "no lock before a night",
            "wait: the next job starts when this job ends; a dead process loses its lock",
        )


def _orphans(given: _CheckInput) -> Iterator[Finding]:
    orphans = given.document["orphans"]
    if not orphans:
        return
    named = ", ".join(sorted({str(each.get("job")) for each in orphans})[:3])
    yield warn(
        "orphans",
        f"{len(orphans)} Nightbench processes whose agent is gone ({named})",
        "none",
        f"nightbench clean --cluster {given.cluster.name} --orphans",
    )


_CHECKS = (
    _root,
    _job_root,
    _disk,
    _shm,
    _memory,
    _session,
    _limits,
    _interpreters,
    _machine,
    _clock,
    lambda given: devices.governor(given.document, given.cluster),
    lambda given: devices.gpus(given.document, given.cluster, given.node, given.lines),
    lambda given: devices.links(given.document, given.cluster, given.node),
    _foreign,
    _locked,
    _orphans,
)


_CHECKS_OF_A_LOGIN_NODE = (_root, _disk, _interpreters, _machine)
"""Checks of a login node of Slurm: the shared folder, the tools that build environments."""


def _size(count: float) -> str:
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 120 else f"{seconds:.1f} s"
