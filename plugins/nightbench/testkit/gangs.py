"""Gangs of real framework lines without SSH, launched as the agent launches them."""

import atexit
import functools
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from nightbench.checks import CheckContext, check_repeats
from nightbench.config import load_catalog
from nightbench.config.locations import benchmarks_folder, dags_folder
from nightbench.core.code_digest import shipped_files
from nightbench.core.model import Case, Process, Protocol
from nightbench.core.model_flops import step_flops_per_unit
from nightbench.core.summarize import repeat_record, summarize_repeat
from nightbench.local.home import find_home, venv_bin


def _shipped_tree() -> Path:
    """Return the shipped folder: benchmarks/, or a copy with a project's own files."""
    benchmarks, project = benchmarks_folder(), dags_folder()
    if not any((project / kind).is_dir() for kind in ("frameworks", "workloads")):
        return benchmarks
    copy = Path(tempfile.mkdtemp(prefix="nightbench-tests-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    for name, path in shipped_files(benchmarks, project):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy / name)
    return copy


BENCHMARKS = _shipped_tree()
LIMIT_S = 300.0
catalog = functools.cache(load_catalog)


def build_environment(root: Path, line: str, variant: str | None = None) -> str:
    """The interpreter of a line's environment below `root`, which is built if it is not there.

    Skips the test if the line is not available on this machine. It is the environment of
    `variant` [default: the first variant for CPUs].
    """
    root.mkdir(exist_ok=True)
    home = find_home()
    env = {"UV_CACHE_DIR": str(home.root / "cache" / "uv"), **os.environ}
    argv = [sys.executable, str(BENCHMARKS / "agent.py"), "provision", "--root", str(root)]
    if variant is None:
        variants = described(line)["variants"].items()
        variant = next((name for name, each in variants if each["device"] == "cpu"), None)
    if variant is None:
        pytest.skip(f"{line}: it has no variant for CPUs")
    argv += ["--line", line, "--variant", variant, "--lock-dir", str(root / "locks")]
    uv = venv_bin() / "uv"
    if uv.exists():
        argv += ["--uv", str(uv)]
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=False)
    answer = json.loads(done.stdout)
    if "unavailable" in answer:
        pytest.skip(f"needs what {line} lacks: {answer['unavailable']}")
    assert done.returncode == 0, answer
    python: str = answer["python"]
    return python


def described(line: str, code: Path = BENCHMARKS) -> Any:
    """The framework.json of a line."""
    return json.loads((code / "frameworks" / line / "framework.json").read_text())


def smallest_scale(scales: Iterable[str]) -> str:
    """The scale of a workload to test with: `smoke`, else the first by name."""
    return min(scales, key=lambda name: (name != "smoke", name))


def job_of(
    line: str,
    workload: str,
    trainers: int,
    pservers: int = 0,
    code: Path = BENCHMARKS,
    **axes: Any,
) -> Any:
    """A job.json at the smallest scale, as far as launch.py and rank.py read it.

    The line's framework.json says the roles. Every measured process has a loopback address of its
    own node, n1, n2, ...; the others share n1.
    """
    scales = json.loads((code / "workloads" / workload / "spec.json").read_text())["scales"]
    counts: dict[str, Any] = {"trainers": trainers, "pservers": pservers}
    own = {"batch_size_per_device": 2, "scale": smallest_scale(scales), **axes}
    case = Case(workload, line, nodes=trainers, **counts, **own)
    roles = described(line).get("roles", {}).get(case.strategy)
    roles = roles or {"trainer": {"count": "trainers", "measured": True}}
    places = [
        (role, rank, f"n{rank + 1 if each.get('measured') else 1}")
        for role, each in roles.items()
        for rank in range(counts.get(each["count"], each["count"]))
    ]
    keys = ("role", "rank", "node")
    return {
        "case": case.axes(),
        "nodes": [
            {"name": f"n{i + 1}", "data_address": f"127.0.0.{i + 2}", "interface": "lo"}
            for i in range(trainers)
        ],
        "processes": [
            {"name": f"{place[0]}-{place[1]}", "local_rank": 0, "device": None}
            | {"measured": roles[place[0]].get("measured", False)}
            | dict(zip(keys, place, strict=True))
            for place in places
        ],
        "protocol": {"warmup_steps": 1, "measured_steps": 3, "min_seconds": 0.5},
        "workload": {
            "params": scales[case.scale],
            "seed": 1,
            "data_path": None,
        },
        "env": {},
    }


def run_gang(
    folder: Path,
    job: Any,
    python: str,
    seed_of: Callable[[int], int] = lambda rank: 1,
    can_meet: bool = True,
    code: Path = BENCHMARKS,
    env: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Runs a gang to its trainers' end; what they wrote in rank.json, by rank.

    `seed_of` gives the seed that a trainer finds in its job.json; with `can_meet` the processes are
    given what launch.py says: who and where the others are.
    """
    names = [process["name"] for process in job["processes"]]
    ports = dict(zip(["master", *names], free_ports(1 + len(names)), strict=True))
    (folder / "go.json").write_text(json.dumps({"epoch": 1, "ports": ports}))
    trainers = [p["name"] for p in job["processes"] if p["measured"]]
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for process in job["processes"]:
            name = process["name"]
            job["workload"]["seed"] = seed_of(process["rank"])
            (folder / f"{name}.json").write_text(json.dumps(job))
            (folder / name).mkdir()
            commands = launch(job["case"]["framework"])(
                job, process["node"], ports, python, str(code)
            )
            (started,) = [command for command in commands if command["name"] == name]
            variables = {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                **(env or {}),
                "NIGHTBENCH_JOB_FILE": str(folder / f"{name}.json"),
                "NIGHTBENCH_PROCESS": name,
                "NIGHTBENCH_REPEAT_DIR": str(folder),
                "NIGHTBENCH_PROCESS_DIR": str(folder / name),
                "NIGHTBENCH_CODE": str(code),
                **(started["env"] if can_meet else {}),
            }
            with (folder / name / "out.log").open("w") as log:
                running[name] = subprocess.Popen(
                    started["argv"],
                    env=variables,
                    cwd=folder / name,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        _wait(folder, running, trainers)
    finally:
        for each in running.values():
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()
    return [json.loads((folder / name / "rank.json").read_text()) for name in trainers]


def _wait(folder: Path, running: dict[str, Any], trainers: list[str]) -> None:
    """Wait until all trainers have ended; let asynchronous trainers stop when all are done."""
    limit_s = time.monotonic() + LIMIT_S
    while any(running[name].poll() is None for name in trainers):
        for name, process in running.items():
            log = (folder / name / "out.log").read_text(errors="replace")
            assert process.poll() in (None, 0), f"{name}: {log[-4000:]}"
        assert time.monotonic() < limit_s, f"no end after {LIMIT_S} s"
        steps = [folder / name / "steps.jsonl" for name in trainers]
        if all(each.exists() and '"drain"' in each.read_text() for each in steps):
            (folder / "drain").touch()
        time.sleep(0.1)
    for name in trainers:
        log = (folder / name / "out.log").read_text(errors="replace")
        assert running[name].returncode == 0, f"{name}: {log[-4000:]}"


def launch(line: str) -> Callable[..., list[dict[str, Any]]]:
    """`processes` of a line's launch.py."""
    found: Callable[..., Any] = load_module(
        BENCHMARKS / "frameworks" / line / "launch.py"
    ).processes
    return found


def load_module(path: Path) -> Any:
    """A file of benchmarks/ as a module, whose imports are found there."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def free_ports(count: int) -> list[int]:
    """Return that many TCP ports that were free a moment ago."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


OF_CLOCKS = ("overlap", "throughput_matches_steps", "window_matches_steps")


def refused(job: Any, ranks: list[dict[str, Any]]) -> dict[str, str]:
    """The checks that quarantine a repeat -> what they observed, as the control plane has them.

    Without those that read clocks: in windows of a few steps they judge how busy this machine is.
    """
    case = Case.from_axes(job["case"])
    processes = tuple(
        Process(p["name"], p["role"], p["rank"], p["node"], 0, measured=p["measured"])
        for p in job["processes"]
    )
    measured = iter(ranks)
    results: dict[str, dict[str, Any]] = {node["name"]: {"processes": []} for node in job["nodes"]}
    for process in job["processes"]:
        entry = {key: process[key] for key in ("name", "role", "rank", "measured")}
        entry["summary"] = next(measured) if process["measured"] else None
        results[process["node"]]["processes"].append(entry)
    workload, params = catalog().workloads[case.workload], job["workload"]["params"]
    context = CheckContext(
        case=case,
        losses=workload.losses and workload.losses.of(case),
        has_dropout=bool(params.get("dropout")),
        step_flops_per_unit=step_flops_per_unit(workload, params),
        protocol=Protocol(**job["protocol"], repeats=1),
        processes=processes,
        unit="units",
        units_per_trainer_step=None,
        parameters=params.get("parameters"),
    )
    clocks = {node["name"]: {"offset_s": 0.0, "error_s": 0.0} for node in job["nodes"]}
    record = repeat_record({"repeat": 1, "status": "ok", "clocks": clocks}, results)
    summary = summarize_repeat(record, case)
    checks = check_repeats(context, [record], [summary])
    refusing = {each.check: each.observed for each in checks if each.quarantines}
    return {check: observed for check, observed in refusing.items() if check not in OF_CLOCKS}
