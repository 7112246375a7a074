"""The Nightbench agent: all work on a node. It needs Python 3.7 or newer and nothing else.

Every verb prints one JSON document and exits 0; on failure it prints {"error": ...} and exits
non-zero. Its modules are in `nodeside/`; benchmarks/README.md describes the contract.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from nodeside.files import AgentError, explain  # noqa: E402 - the path is set just above

PATHS = ("root", "uv", "wheel", "wheelhouse", "lock_dir", "job_root", "jobdir", "dir", "sweep")
"""Options that are paths."""


def _start(options: argparse.Namespace) -> object:
    from nodeside import agent_start

    return agent_start.start(options.jobdir, options.node, __file__, options.sweep)


def _task(options: argparse.Namespace) -> object:
    from nodeside import agent_start

    return agent_start.serve_as_task(options.dir, dict(options.node), __file__)


def _provision(options: argparse.Namespace) -> object:
    from nodeside import provision

    return provision.provision(options, HERE)


def _commit(options: argparse.Namespace) -> object:
    from nodeside import commit_build

    return commit_build.commit(options, HERE)


def _image(options: argparse.Namespace) -> object:
    from nodeside import containers

    return containers.image(options)


def _versions(options: argparse.Namespace) -> object:
    from nodeside import versions

    return versions.versions(options, HERE)


def _fingerprint(options: argparse.Namespace) -> object:
    from nodeside import fingerprint

    return fingerprint.fingerprint(HERE, options.python)


def _prefix(options: argparse.Namespace) -> object:
    from nodeside import prefixes

    return prefixes.prefix(options.path)


def _sweep(options: argparse.Namespace) -> object:
    from nodeside import sweep

    return sweep.sweep(options.job, options.kill, options.root)


def _doctor(options: argparse.Namespace) -> object:
    from nodeside import doctor

    return doctor.doctor(options.root, options.lock_dir, HERE)


def _preflight(options: argparse.Namespace) -> object:
    from nodeside import preflight

    return preflight.preflight(
        options.root,
        options.job_root,
        options.lock_dir,
        HERE,
        options.cpus,
        options.controls,
        dict(options.prefix),
    )


def _allreduce(options: argparse.Namespace) -> object:
    from nodeside import allreduce, control_measurements

    if options.controls:
        words = [str(options.rounds), "--rank", str(options.rank), "--world", str(options.world)]
        words += ["--listen-range", "{}-{}".format(*options.listen_range)]
        words += ["--copy-bytes", str(options.bytes)]
        prefixes = dict(options.prefix)
        control_measurements.become_rank(options.controls, HERE, options.root, prefixes, words)
    return allreduce.allreduce(
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


def _run(options: argparse.Namespace) -> object:
    from nodeside import offline

    return offline.run(options.dir, options.python, options.case, __file__)


def _compare(options: argparse.Namespace) -> object:
    from nodeside import compare

    return compare.compare(options.dir)


def _cores(text: str) -> list[int]:
    """Core numbers: "0,1,4"."""
    return [int(word) for word in text.split(",") if word]


def _task_and_node(text: str) -> tuple[str, str]:
    """Task and node: "gpu01=n1"."""
    task, mark, node = text.partition("=")
    if not (task and mark and node):
        raise argparse.ArgumentTypeError("expected TASK=NODE, found {!r}".format(text))
    return task, node


def _line_and_folder(text: str) -> tuple[str, str]:
    """Framework line and folder: "pytorch=/opt/envs/torch"."""
    line, mark, folder = text.partition("=")
    if not (line and mark and folder):
        raise argparse.ArgumentTypeError("expected LINE=FOLDER, found {!r}".format(text))
    return line, folder


def _port_range(text: str) -> tuple[int, int]:
    """First and last port: "20000-29999"."""
    low, mark, high = text.partition("-")
    if not mark or not 0 < int(low) <= int(high) < 65536:
        raise argparse.ArgumentTypeError("expected FIRST-LAST, found {!r}".format(text))
    return int(low), int(high)


def _clean(options: argparse.Namespace) -> object:
    from nodeside import clean

    return clean.clean(
        options.root, options.keep_days, options.keep_code, options.lock_dir, options.job_root
    )


def _clock() -> None:
    """Print both clocks for every line on stdin; the controller halves the round trip."""
    for _ in iter(sys.stdin.readline, ""):
        print(json.dumps({"monotonic_s": time.monotonic(), "wall_s": time.time()}), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent.py", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.required = True

    verb = verbs.add_parser("start", help="leave an agent behind that serves a job directory")
    verb.add_argument("jobdir")
    verb.add_argument("--node", required=True, help="name of this node in job.json")
    verb.add_argument(
        "--sweep", metavar="ROOT", help="first end what `sweep --root ROOT --kill` ends"
    )
    verb.set_defaults(run=_start)

    verb = verbs.add_parser("task", help="be the agent of one task of a batch job")
    verb.add_argument("dir", help="folder with a job directory for each node")
    verb.add_argument(
        "--node",
        type=_task_and_node,
        action="append",
        required=True,
        help="TASK=NODE: Slurm's name of a node, or the index of a pod, and the node in job.json",
    )
    verb.set_defaults(run=_task)

    verb = verbs.add_parser("serve", help="what `start` leaves behind; not for people")
    verb.add_argument("jobdir")
    verb.add_argument("--node", required=True)
    verb.add_argument("--lock-fd", type=int, required=True)

    verb = verbs.add_parser("reap", help="the agent's parent, which outlives it; not for people")
    verb.add_argument("jobdir")
    verb.add_argument("--node", required=True)
    verb.add_argument("--pid", type=int, required=True)
    verb.add_argument("--forward", action="store_true", help="pass signals on to the agent")

    verb = verbs.add_parser("provision", help="build or find the environment of a line")
    verb.add_argument("--root", required=True)
    verb.add_argument("--line", required=True)
    verb.add_argument("--variant", default="cpu")
    verb.add_argument("--uv", help="the uv binary; a shipped one or PATH otherwise")
    verb.add_argument("--index-url")
    verb.add_argument("--find-links", action="append", default=[])
    verb.add_argument("--wheel", help="a wheel that takes the place of the line's main package")
    verb.add_argument("--version", help="another version of the main package, from the index")
    verb.add_argument("--wheelhouse", help="install from this folder alone, without an index")
    verb.add_argument("--series", help="Python of the environment, 3.13 say; the newest otherwise")
    verb.add_argument("--ask", action="store_true", help="print which of its Pythons run here")
    verb.add_argument("--lock-dir")
    verb.add_argument(
        "--anywhere", action="store_true", help="made for other machines: see no GPU of this one"
    )
    verb.set_defaults(run=_provision)

    verb = verbs.add_parser("commit", help="build the wheel of a commit of a repository")
    verb.add_argument("--root", required=True)
    verb.add_argument("--lock-dir")
    verb.add_argument("--uv")
    verb.add_argument("--line", required=True, help="whose Python builds it")
    verb.add_argument("--repository", required=True, help="its name")
    verb.add_argument("--url", required=True)
    verb.add_argument("--commit", required=True)
    verb.add_argument("--branch", help="build nothing: say where the commit left this branch")
    verb.add_argument("--build", required=True, help="name of the build")
    verb.add_argument("--command", action="append", default=[], help="line for sh")
    verb.add_argument("--timeout", type=float, required=True)
    verb.set_defaults(run=_commit)

    verb = verbs.add_parser("image", help="find or pull the image that a line runs in")
    verb.add_argument("--root", required=True)
    verb.add_argument("--job-root", help="folder for the state of jobs, if not below the root")
    verb.add_argument("--line", required=True)
    verb.add_argument("--image", required=True)
    verb.add_argument("--engine", required=True, help="program with the command line of docker")
    verb.add_argument("--interpreter", required=True, help="Python in the image")
    verb.add_argument("--option", action="append", default=[], help="of the engine's `run`")
    verb.add_argument("--mount", action="append", default=[], help="folder at the same path")
    verb.set_defaults(run=_image)

    verb = verbs.add_parser("versions", help="wheels of a line that this node could install")
    verb.add_argument("--root", required=True)
    verb.add_argument("--line", required=True)
    verb.add_argument("--variant", default="cpu")
    verb.add_argument("--index-url")
    verb.add_argument("--find-links", action="append", default=[])
    verb.set_defaults(run=_versions)

    verb = verbs.add_parser("fingerprint", help="print fingerprint/1")
    verb.add_argument("--root")
    verb.add_argument("--python")
    verb.set_defaults(run=_fingerprint)

    verbs.add_parser("clock", help="print both clocks for every line on stdin")
    verbs.add_parser("follow", help="answer a controller's requests, one JSON line each")

    verb = verbs.add_parser("prefix", help="whether a prefix may be run, and its interpreter")
    verb.add_argument("--path", required=True)
    verb.set_defaults(run=_prefix)

    verb = verbs.add_parser("sweep", help="list, and end, processes whose agent is gone")
    verb.add_argument("--root")
    verb.add_argument("--lock-dir")
    verb.add_argument("--job", help="all processes of jobs whose id starts so, agents too")
    verb.add_argument("--kill", action="store_true")
    verb.set_defaults(run=_sweep)

    verb = verbs.add_parser("doctor", help="what this node has")
    verb.add_argument("--root", required=True)
    verb.add_argument("--lock-dir")
    verb.set_defaults(run=_doctor)

    verb = verbs.add_parser("preflight", help="print preflight/1: what matters before a night")
    verb.add_argument("--root", required=True)
    verb.add_argument("--job-root", help="folder for the state of jobs, if not below the root")
    verb.add_argument("--lock-dir")
    verb.add_argument("--cpus", type=_cores, default=[], help="cores that jobs use: 0,1; all")
    verb.add_argument(
        "--controls", choices=("cpu", "gpu"), help="measure too: CPU, or GPUs as well"
    )
    verb.add_argument(
        "--prefix",
        type=_line_and_folder,
        action="append",
        default=[],
        help="LINE=FOLDER: what a framework line runs from instead of an environment",
    )
    verb.set_defaults(run=_preflight)

    verb = verbs.add_parser("allreduce", help="one rank of a ring over TCP; talks over stdin")
    verb.add_argument("--rank", type=int, required=True)
    verb.add_argument("--world", type=int, required=True)
    verb.add_argument("--listen-range", type=_port_range, required=True)
    verb.add_argument("--bytes", type=int, default=4 * 2**20)
    verb.add_argument("--rounds", type=int, default=5)
    verb.add_argument("--bind", help="address to listen on; all when absent")
    verb.add_argument("--controls", choices=("gpu",), help="between devices, by a line's script")
    verb.add_argument("--root", help="of the environments of lines")
    verb.add_argument("--prefix", type=_line_and_folder, action="append", default=[])
    verb.set_defaults(run=_allreduce)

    verb = verbs.add_parser("run", help="measure an exported plan on this machine")
    verb.add_argument("dir", help="what `nightbench offline export SUITE DIR` wrote")
    verb.add_argument(
        "--python", default=sys.executable, help="interpreter that has the framework; this one"
    )
    verb.add_argument("--case", help="case to run [default: all]")
    verb.set_defaults(run=_run)

    verb = verbs.add_parser(
        "compare", help="compare the medians of a bundle with the original ones"
    )
    verb.add_argument("dir", help="the folder in what `nightbench export --format bundle` wrote")
    verb.set_defaults(run=_compare)

    verb = verbs.add_parser("parse", help="what a log of a training script states")
    verb.add_argument("format")
    verb.add_argument("file")
    verb.add_argument("--warmup", type=int, default=20, help="steps that are left out")
    verb.add_argument("--options", default="{}", help="of the format, as a JSON object")
    verb.set_defaults(run=_parse)

    verb = verbs.add_parser("clean", help="remove old jobs, environments and code")
    verb.add_argument("--root", required=True)
    verb.add_argument("--lock-dir")
    verb.add_argument("--job-root", help="folder for the state of jobs, if not below the root")
    verb.add_argument("--keep-days", type=float, required=True)
    verb.add_argument("--keep-code", action="append", default=[])
    verb.set_defaults(run=_clean)
    return parser


def main() -> int:
    """Run one verb; return the exit code."""
    options = _parser().parse_args()
    try:
        if options.verb == "clock":
            _clock()
            return 0
        if options.verb == "follow":
            from nodeside import follow

            return follow.main()
        if options.verb == "serve":
            from nodeside import agent_daemon

            return agent_daemon.serve(options.jobdir, options.node, __file__, options.lock_fd)
        if options.verb == "reap":
            from nodeside import agent_daemon

            return agent_daemon.reap_after(
                options.jobdir, options.node, __file__, options.pid, options.forward
            )
        for name in PATHS:
            value = getattr(options, name, None)
            if value:
                setattr(options, name, os.path.abspath(os.path.expanduser(value)))
        print(json.dumps(options.run(options)))
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
