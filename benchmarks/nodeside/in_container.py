"""`bin/python` of an environment that is an image: runs the image's interpreter in a container.

It is in the folder of the environment, next to container.json, and needs no other file. The process
in the container resembles one that was started here: same network, process ids, user, folders,
cores, variables that the agent has set, exit status. Labels name its job and node.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, Mapping, Sequence

JOB_LABEL = "nightbench.job"
NODE_LABEL = "nightbench.node"
APPTAINER = "apptainer"

_OF_THE_SHELL = frozenset(("PATH", "PWD", "OLDPWD", "SHLVL", "_", "HOME"))
_FATAL = frozenset((1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 15))
_ON_CORES = (
    "import os,sys;os.sched_setaffinity(0,{{{}}});"
    "os.execv(sys.executable,[sys.executable]+sys.argv[1:])"
)


def command(
    settings: Mapping[str, Any],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    job: Mapping[str, Any],
) -> tuple[list[str], dict[str, str]]:
    """Return the words that run the image's interpreter, and the variables of the engine's client.

    The words contain no values of variables.

    Args:
        settings: container.json.
        arguments: of the interpreter.
        environment: of this process; variables that differ from `inherited` are passed on.
        inherited: of the process that started this one; other variables of the image stay.
        job: job.json of the job that it belongs to; empty if there is none.
    """
    written = _written(job)
    passed = []
    for name in sorted(set(environment) - _OF_THE_SHELL):
        ours = name.startswith("NIGHTBENCH_") or name.endswith("_NUM_THREADS")
        if ours or name in written or environment[name] != inherited.get(name):
            passed.append(name)
    mounts = []
    for mount in settings["mounts"]:
        path = mount[:-3] if mount.endswith(":ro") else mount
        mounts.append("{0}:{0}{1}".format(path, mount[len(path) :]))
    data = (job.get("workload") or {}).get("data_path")
    if data:
        mounts.append("{0}:{0}:ro".format(os.path.expanduser(data)))
    if os.path.basename(settings["engine"]) == APPTAINER:
        words = _of_apptainer(settings, mounts)
        # The value of APPTAINERENV_NAME becomes NAME in the container.
        env = {**environment, **{"APPTAINERENV_" + name: environment[name] for name in passed}}
    else:
        memory_mb = (job.get("case") or {}).get("memory_mb")
        words = _of_docker(settings, mounts, passed, environment, memory_mb)
        env = dict(environment)
    return words + list(arguments), env


def _of_apptainer(settings: Mapping[str, Any], mounts: Sequence[str]) -> list[str]:
    """Return the command; its containers are child processes with this cgroup, cores and user."""
    words = [settings["engine"], "exec", "--cleanenv", "--no-home", "--pwd", os.getcwd()]
    for mount in mounts:
        words += ["--bind", mount]
    return [*words, *settings["options"], settings["image"], settings["python"]]


def _of_docker(
    settings: Mapping[str, Any],
    mounts: Sequence[str],
    passed: Sequence[str],
    environment: Mapping[str, str],
    memory_mb: int | None,
) -> list[str]:
    engine = os.path.basename(settings["engine"])
    words = [settings["engine"], "run", "--rm", "--network", "host", "--ipc", "host"]
    words += ["--pid", "host", "--security-opt", "label=disable", "--log-driver", "none"]
    words += ["--user", "{}:{}".format(os.getuid(), os.getgid()), "--workdir", os.getcwd()]
    if engine == "podman" and os.getuid():
        words += ["--userns", "keep-id"]
    words += ["--label", "{}={}".format(JOB_LABEL, environment.get("NIGHTBENCH_JOB", ""))]
    words += ["--label", "{}={}".format(NODE_LABEL, environment.get("NIGHTBENCH_NODE", ""))]
    for mount in mounts:
        words += ["--volume", mount]
    if memory_mb:
        words += ["--memory", str(memory_mb * 10**6), "--memory-swap", str(memory_mb * 10**6)]
    words += ["--env", "HOME=/tmp"]
    for name in passed:
        words += ["--env", name]
    words += [*settings["options"], "--entrypoint", settings["python"], settings["image"]]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < (os.cpu_count() or 0):
        words += ["-c", _ON_CORES.format(",".join(map(str, cores)))]
    return words


def _written(job: Mapping[str, Any]) -> set[str]:
    """Return the names of the variables that the user has set for this job."""
    names = set(job.get("env") or ())
    for env in (job.get("role_env") or {}).values():
        names.update(env)
    for node in job.get("nodes") or ():
        names.update(node["env"])
    return names


def _environment_of(pid: int) -> dict[str, str]:
    try:
        with open("/proc/{}/environ".format(pid), "rb") as handle:
            entries = handle.read().split(b"\0")
    except OSError:
        return {}
    pairs = (os.fsdecode(entry).partition("=") for entry in entries if entry)
    return {name: value for name, _, value in pairs}


def _document(path: str) -> dict[str, Any]:
    with open(path) as handle:
        return dict(json.load(handle))


def main() -> int:
    """Run the interpreter in a container; end with its exit code or signal."""
    here = os.path.dirname(os.path.abspath(__file__))
    settings = _document(os.path.join(here, "container.json"))
    path = os.environ.get("NIGHTBENCH_JOB_FILE")
    job = _document(path) if path else {}
    inherited = _environment_of(os.getppid())
    words, env = command(settings, sys.argv[1:], os.environ, inherited, job)
    # The engine's client is in the same process group and forwards the group's signals.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    client = subprocess.Popen(words, env=env, preexec_fn=_obey)
    code = client.wait()
    number = -code if code < 0 else code - 128
    if number in _FATAL:
        # In this way the client reports the signal that ended the process: end by the same signal.
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return code


def _obey() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
