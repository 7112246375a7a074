"""The Nightbench agent: all work on a node. It needs Python 3.7 or newer and nothing else.

Every verb prints one JSON document and exits 0; on failure it prints {"error": ...} and exits
non-zero. Its modules are in `nodeside/`; docs/node-agent.md describes the contract.
"""

from __future__ import annotations

import os
import sys

# A user's PYTHONPATH, perhaps for another Python, must not hide modules of the agent.
if __name__ == "__main__":
    _users = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [each for each in sys.path if each not in _users]
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import argparse
import importlib
import json
from typing import Any, Callable

from nodeside.files import AgentError, explain

HERE = os.path.dirname(os.path.abspath(__file__))
PATHS = ("root", "uv", "wheel", "wheelhouse", "lock_dir", "job_root", "jobdir", "dir", "sweep")
"""Options that are paths."""


def _cores(text: str) -> list[int]:
    """Return core numbers from text such as "0,1,4"."""
    return [int(word) for word in text.split(",") if word]


def _pair(text: str) -> tuple[str, str]:
    """Return name and value from text such as "pytorch=/opt/envs/torch"."""
    name, mark, value = text.partition("=")
    if not (name and mark and value):
        raise argparse.ArgumentTypeError("expected NAME=VALUE, found {!r}".format(text))
    return name, value


def _port_range(text: str) -> tuple[int, int]:
    """Return first and last port from text such as "20000-29999"."""
    low, mark, high = text.partition("-")
    if not mark or not 0 < int(low) <= int(high) < 65536:
        raise argparse.ArgumentTypeError("expected FIRST-LAST, found {!r}".format(text))
    return int(low), int(high)


def _nodeside(name: str) -> Any:
    """Import a module of `nodeside`; each verb imports only the module that it needs."""
    return importlib.import_module("nodeside." + name)


def _preflight(options: argparse.Namespace) -> object:
    return _nodeside("preflight").preflight(
        options.root,
        options.job_root,
        options.lock_dir,
        HERE,
        options.cpus,
        options.controls,
        dict(options.prefix),
    )


def _allreduce(options: argparse.Namespace) -> object:
    if options.controls:
        words = [str(options.rounds), "--rank", str(options.rank), "--world", str(options.world)]
        words += ["--listen-range", "{}-{}".format(*options.listen_range)]
        words += ["--copy-bytes", str(options.bytes)]
        prefixes = dict(options.prefix)
        become_rank = _nodeside("control_measurements").become_rank
        become_rank(options.controls, HERE, options.root, prefixes, words)
    return _nodeside("allreduce").allreduce(
        options.rank,
        options.world,
        options.listen_range,
        options.bytes,
        options.rounds,
        options.bind,
    )


def _parse(options: argparse.Namespace) -> object:
    from logs import reading, summary

    try:
        return summary.summary(
            options.format, options.file, json.loads(options.options), options.warmup
        )
    except reading.LogError as error:
        raise AgentError(str(error)) from error


RUN: dict[str, Callable[[argparse.Namespace], object]] = {
    "start": lambda o: _nodeside("agent_start").start(o.jobdir, o.node, __file__, o.sweep),
    "task": lambda o: _nodeside("agent_start").serve_as_task(o.dir, dict(o.node), __file__),
    "provision": lambda o: _nodeside("provision").provision(o, HERE),
    "commit": lambda o: _nodeside("commit_build").commit(o, HERE),
    "image": lambda o: _nodeside("containers").image(o),
    "versions": lambda o: _nodeside("versions").versions(o, HERE),
    "fingerprint": lambda o: _nodeside("fingerprint").fingerprint(HERE, o.python),
    "prefix": lambda o: _nodeside("prefixes").prefix(o.path),
    "sweep": lambda o: _nodeside("sweep").sweep(o.job, o.kill, o.root),
    "preflight": _preflight,
    "allreduce": _allreduce,
    "run": lambda o: _nodeside("offline").run(o.dir, o.python, o.case, __file__),
    "compare": lambda o: _nodeside("compare_bundle").compare(o.dir),
    "parse": _parse,
    "clean": lambda o: _nodeside("clean").clean(
        o.root, o.keep_days, o.keep_code, o.lock_dir, o.job_root
    ),
}
"""Verbs that return one document."""

SERVE: dict[str, Callable[[argparse.Namespace], int]] = {
    "follow": lambda o: _nodeside("follow").main(),
    "serve": lambda o: _nodeside("agent_daemon").serve(o.jobdir, o.node, __file__, o.lock_fd),
    "reap": lambda o: _nodeside("agent_daemon").reap_after(
        o.jobdir, o.node, __file__, o.pid, o.forward
    ),
}
"""Verbs that run until their work ends, and return the exit code."""

SHARED: dict[str, dict[str, Any]] = {
    "--root": {"required": True},
    "--lock-dir": {},
    "--job-root": {"help": "folder for the state of jobs [default: below the root]"},
    "--line": {"required": True, "help": "framework line"},
    "--variant": {"default": "cpu"},
    "--uv": {"help": "the uv binary [default: the shipped one, or uv on PATH]"},
    "--index-url": {},
    "--find-links": {"action": "append", "default": []},
    "--prefix": {
        "type": _pair,
        "action": "append",
        "default": [],
        "help": "LINE=FOLDER: prefix that a framework line runs from, not an environment",
    },
}
"""Options of several verbs."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.py", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.required = True

    def add(name: str, shown: str, *shared: str) -> Any:
        verb = verbs.add_parser(name, help=shown)
        for each in shared:
            verb.add_argument(each, **SHARED[each])
        return verb.add_argument

    argument = add("start", "start an agent that serves a job directory in the background")
    argument("jobdir")
    argument("--node", required=True, help="name of this node in job.json")
    argument("--sweep", metavar="ROOT", help="first do `sweep --root ROOT --kill`")

    argument = add("task", "be the agent of one task of a batch job")
    argument("dir", help="folder with a job directory for each node")
    argument(
        "--node",
        type=_pair,
        action="append",
        required=True,
        help="TASK=NODE: Slurm's name of a node, or the index of a pod, and the node in job.json",
    )

    argument = add("serve", "the agent that `start` starts; internal")
    argument("jobdir")
    argument("--node", required=True)
    argument("--lock-fd", type=int, required=True)

    argument = add("reap", "the agent's parent, which outlives the agent; internal")
    argument("jobdir")
    argument("--node", required=True)
    argument("--pid", type=int, required=True)
    argument("--forward", action="store_true", help="pass signals on to the agent")

    argument = add(
        "provision",
        "build or find the environment of a line",
        *("--root", "--line", "--variant", "--uv", "--index-url", "--find-links", "--lock-dir"),
    )
    argument("--wheel", help="a wheel that takes the place of the line's main package")
    argument("--version", help="another version of the main package, from the index")
    argument("--wheelhouse", help="install from this folder alone, without an index")
    argument("--series", help="Python of the environment, such as 3.13 [default: the newest]")
    argument("--ask", action="store_true", help="print the Pythons of its lock that run here")
    argument("--anywhere", action="store_true", help="for other machines: ignore this one's GPUs")

    argument = add(
        "commit",
        "build the wheel of a commit of a repository",
        "--root",
        "--lock-dir",
        "--uv",
        "--line",
    )
    argument("--repository", required=True, help="its name")
    argument("--url", required=True)
    argument("--commit", required=True)
    argument("--branch", help="only print where the commit left this branch")
    argument("--build", required=True, help="name of the build")
    argument("--command", action="append", default=[], help="line for sh")
    argument("--timeout", type=float, required=True)

    argument = add(
        "image", "find or pull the image that a line runs in", "--root", "--job-root", "--line"
    )
    argument("--image", required=True)
    argument("--engine", required=True, help="program with the command line of docker")
    argument("--interpreter", required=True, help="Python in the image")
    argument("--option", action="append", default=[], help="option of the engine's `run`")
    argument("--mount", action="append", default=[], help="folder to mount at its own path")

    add(
        "versions",
        "print the wheels of a line that this node could install",
        "--root",
        "--line",
        "--variant",
        "--index-url",
        "--find-links",
    )

    argument = add("fingerprint", "print fingerprint/1")
    argument("--root")
    argument("--python")

    add("follow", "answer a controller's requests, one JSON line each")

    argument = add("prefix", "check whether a prefix may be run; print its interpreter")
    argument("--path", required=True)

    argument = add("sweep", "list (--kill: end) processes whose agent is gone", "--lock-dir")
    argument("--root")
    argument("--job", help="all processes of jobs whose id starts with this, and agents")
    argument("--kill", action="store_true")

    argument = add(
        "preflight",
        "print preflight/1: what matters before a night",
        "--root",
        "--job-root",
        "--lock-dir",
        "--prefix",
    )
    argument("--cpus", type=_cores, default=[], help="cores that jobs use, 0,1 [default: all]")
    argument("--controls", choices=("cpu", "gpu"), help="also measure the CPU, or CPU and GPUs")

    argument = add("allreduce", "run one rank of an all-reduce over TCP", "--prefix")
    argument("--root", help="folder of the lines' environments")
    argument("--rank", type=int, required=True)
    argument("--world", type=int, required=True)
    argument("--listen-range", type=_port_range, required=True)
    argument("--bytes", type=int, default=4 * 2**20)
    argument("--rounds", type=int, default=5)
    argument("--bind", help="address to listen on [default: all]")
    argument("--controls", choices=("gpu",), help="between GPUs, by a line's script")

    argument = add("run", "measure an exported plan on this machine")
    argument("dir", help="what `nightbench offline export SUITE DIR` wrote")
    argument(
        "--python", default=sys.executable, help="interpreter with the framework [default: this]"
    )
    argument("--case", help="case to run [default: all]")

    argument = add("compare", "compare the medians of a bundle with the original ones")
    argument("dir", help="the folder in what `nightbench export --format bundle` wrote")

    argument = add("parse", "print the values in a training script's log")
    argument("format")
    argument("file")
    argument("--warmup", type=int, default=20, help="first steps to leave out")
    argument("--options", default="{}", help="options of the format, a JSON object")

    argument = add(
        "clean", "remove old jobs, environments and code", "--root", "--lock-dir", "--job-root"
    )
    argument("--keep-days", type=float, required=True)
    argument("--keep-code", action="append", default=[])
    return parser


def main() -> int:
    """Run one verb; return the exit code."""
    options = _parser().parse_args()
    try:
        if options.verb in SERVE:
            return SERVE[options.verb](options)
        for name in PATHS:
            value = getattr(options, name, None)
            if value:
                setattr(options, name, os.path.abspath(os.path.expanduser(value)))
        print(json.dumps(RUN[options.verb](options)))
    except AgentError as error:
        print(json.dumps(error.document()))
        return 1
    except KeyboardInterrupt:
        print(
            "\ninterrupted; all processes have been ended; the next call resumes",
            file=sys.stderr,
        )
        return 130
    except OSError as error:
        print(json.dumps(explain(error, getattr(options, "root", None) or HERE).document()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
