"""An image made to look like a prefix: what the engine is asked."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from node_driver import agent_of
from nodeside import containers, in_container

IMAGE = "sha256:" + "a" * 64


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Writes down what it is asked; has IMAGE alone; runs the last words of `run` itself."""
    script = tmp_path / "podman"
    script.write_text(
        f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
with open({str(tmp_path / "asked")!r}, "a") as out:
    print(*words, file=out)
if words[:2] == ["image", "inspect"]:
    sys.exit(words[-1] != {IMAGE!r})
if words[0] == "ps":
    print("c1 c2" if "label=nightbench.job" in words else "c1")
if words[0] == "inspect":
    print({{"c1": "run-1/case/g0", "c2": "run-12/case/g0"}}[words[-1]])
if words[0] == "run":
    os.execv(sys.executable, [sys.executable, *words[words.index({IMAGE!r}) + 1:]])
"""
    )
    script.chmod(0o755)
    return script


def asked(engine: Path) -> list[str]:
    return engine.with_name("asked").read_text().splitlines()


def prepared(engine: Path, tmp_path: Path, **changed: object) -> dict[str, str]:
    options = {
        "root": str(tmp_path / "root"),
        "job_root": None,
        "line": "pytorch",
        "image": IMAGE,
        "engine": str(engine),
        "interpreter": "/opt/env/bin/python",
        "option": ["--gpus=all"],
        "mount": ["/data:ro"],
    }
    return containers.image(SimpleNamespace(**{**options, **changed}))


def test_the_interpreter_runs_in_a_container_and_ends_as_it_does_there(engine, tmp_path) -> None:
    python = prepared(engine, tmp_path)["python"]
    job = f"run-{os.getpid()}/case/g0"
    environment = {"NIGHTBENCH_JOB": job, "NIGHTBENCH_NODE": "n1", "SECRET": "hush"}
    for code, expected in (
        ("import sys; sys.exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -9),
    ):
        with agent_of(job, "n1"):
            done = subprocess.run([python, "-c", code], env={"PATH": "/usr/bin", **environment})
        assert done.returncode == expected
    words = asked(engine)[-1].split()
    assert words[:2] == ["run", "--rm"]
    assert {
        f"nightbench.job={job}",
        "nightbench.node=n1",
        "/data:/data:ro",
        "--gpus=all",
    } <= set(words)
    assert "SECRET" in words  # the name alone: the engine takes the value from its environment
    assert "hush" not in " ".join(words)
    assert "PATH" not in words


def test_data_memory_and_cores_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {3})
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    settings = {"engine": "docker", "mounts": ["/m"], "options": [], "python": "py", "image": IMAGE}
    job = {
        "workload": {"data_path": "/data/imagenet"},
        "case": {"memory_mb": 5},
        "env": {"TUNED": "1"},
        "nodes": [{"env": {}}],
    }
    same = {"TUNED": "1", "KEPT": "x", "NIGHTBENCH_CODE": "/c", "OMP_NUM_THREADS": "1"}
    words, env = in_container.command(settings, ["-u", "rank.py"], same, same, job)
    assert env == same
    line = " ".join(words)
    assert "--volume /m:/m --volume /data/imagenet:/data/imagenet:ro --memory 5000000" in line
    passed = [words[at + 1] for at, word in enumerate(words) if word == "--env"]
    assert passed == ["HOME=/tmp", "NIGHTBENCH_CODE", "OMP_NUM_THREADS", "TUNED"]
    assert words[-5:-3] == [IMAGE, "-c"]
    assert "sched_setaffinity(0,{3})" in words[-3]
    assert "--userns" not in words


def test_what_is_not_there_is_unavailable(engine, tmp_path) -> None:
    assert "is no program on this node" in prepared(Path("nope"), tmp_path)["unavailable"]
    other = "sha256:" + "b" * 64
    assert f"has no image {other}" in prepared(engine, tmp_path, image=other)["unavailable"]
    engine.write_text(
        engine.read_text().replace(
            'if words[0] == "ps"',
            'if words[0] == "pull":\n    sys.exit("no such registry")\nif words[0] == "ps"',
        )
    )
    said = prepared(engine, tmp_path, image=f"example.org/x@{other}")["unavailable"]
    assert said.endswith(f"pull example.org/x@{other}: no such registry")
    engine.write_text(engine.read_text().replace("os.execv(", "sys.exit('no python') or ("))
    assert prepared(engine, tmp_path)["unavailable"].endswith(": no python")


def test_containers_are_removed_by_their_labels(engine, tmp_path) -> None:
    python = prepared(engine, tmp_path)["python"]
    assert containers.remove_of("/usr/bin/python3", "run-1/case/g0", "n1") == []
    assert containers.remove_of(python, "run-1/case/g0", "n1") == ["c1"]
    assert asked(engine)[-2:] == [
        "ps --all --quiet --filter label=nightbench.job=run-1/case/g0 "
        "--filter label=nightbench.node=n1",
        "rm --force c1",
    ]
    # A run whose id begins alike is another one.
    assert containers.remove_below(str(tmp_path / "root"), "run-1/") == ["c1"]
    assert json.loads((Path(python).parents[1] / "container.json").read_text())["image"] == IMAGE


def test_apptainer_gets_values_by_its_own_variables(tmp_path: Path) -> None:
    settings = {
        "engine": "/usr/bin/apptainer",
        "mounts": ["/m", "/data:ro"],
        "options": ["--nv"],
        "python": "py",
        "image": "/i.sif",
    }
    environment = {"NIGHTBENCH_JOB": "j", "SAME": "1", "SET": "secret value", "PATH": "/bin"}
    words, env = in_container.command(
        settings, ["-c", "pass"], environment, {"SAME": "1", "SET": ""}, {}
    )
    assert words[:3] == ["/usr/bin/apptainer", "exec", "--cleanenv"]
    line = " ".join(words)
    assert "--bind /m:/m --bind /data:/data:ro --nv /i.sif py -c pass" in line
    assert "secret" not in line
    passed = {name: value for name, value in env.items() if name.startswith("APPTAINERENV_")}
    assert passed == {"APPTAINERENV_NIGHTBENCH_JOB": "j", "APPTAINERENV_SET": "secret value"}


def test_a_file_is_the_image_that_was_named(tmp_path: Path) -> None:
    apptainer = tmp_path / "apptainer"
    apptainer.write_text('#!/bin/sh\n[ "$1" = exec ]\n')
    apptainer.chmod(0o755)
    file = tmp_path / "fake.sif"
    file.write_bytes(b"image")
    digest = hashlib.sha256(b"image").hexdigest()
    found = prepared(apptainer, tmp_path, image=f"{file}@sha256:{digest}")
    made = json.loads(Path(found["env"], "container.json").read_text())
    assert made["image"] == str(file)
    assert containers.remove_of(found["python"], "run-1", "n1") == []
    file.write_bytes(b"another")
    found = prepared(apptainer, tmp_path, image=f"{file}@sha256:{digest}")
    assert f"expected {digest}" in found["unavailable"]
    found = prepared(apptainer, tmp_path, image=f"{tmp_path / 'none'}@sha256:{digest}")
    assert "No such file" in found["unavailable"]
    # Nothing is left of a pull that failed.
    found = prepared(apptainer, tmp_path, image=f"reg/fake@sha256:{digest}")
    assert "pull" in found["unavailable"]
    assert list((tmp_path / "root" / "images").iterdir()) == []
