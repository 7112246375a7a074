"""`offline k8s`: its Jobs run here, each pod in namespaces of its own, as a kubelet would start it.

What is not run is Kubernetes: names of pods come from a hosts file, the volume is a folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.integration.terminal import TRIAL, Terminal, marked

from nightbench.core.kubernetes_jobs import MOUNT

UNSHARE = ["unshare", *(["--map-root-user"] if os.getuid() else []), "--mount", "--uts", "--pid"]
UNSHARE += ["--fork", "--mount-proc", "--kill-child"]
POD = 'mount --bind "$HOSTS" /etc/hosts && hostname "$POD" && exec "$@"'
LIMIT_S = 120
GANG = "sleep-fake-collective-2x1-bs2-smoke"

CLUSTER = f"""\
cluster: local
shared: true
nodes: [{{hosts: "pod[0-1]"}}]
environments: {{python: {sys.executable}}}
kubernetes:
  claim: runs
  images: {{fake: "registry.example.org/fake:1"}}
  resources: {{cpu: "1", memory: 1Gi}}
  time_limit: 1h
"""

pytestmark = pytest.mark.skipif(
    subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode != 0,
    reason="needs a kernel that lets this user make namespaces (unshare), or root",
)


class Kubelet:
    """Starts the pods of a run's Jobs.

    Args:
        folder: the run, as it was rendered.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = [
            yaml.safe_load(path.read_text())
            for path in sorted((folder / "kubernetes").glob("job-*.yaml"))
        ]
        self.run_id: str = json.loads((folder / "export.json").read_text())["run_id"]
        self._hosts = folder / "hosts"
        self._started: list[subprocess.Popen[str]] = []
        names = [
            f"127.0.{1 + at}.{1 + index} {job['metadata']['name']}-{index}."
            f"{job['spec']['template']['spec']['subdomain']}"
            for at, job in enumerate(self.jobs)
            for index in range(job["spec"]["completions"])
        ]
        self._hosts.write_text("\n".join(["127.0.0.1 localhost", *names, ""]))

    def job_of(self, case_id: str) -> dict[str, Any]:
        """The Job of a case."""
        return next(
            job for job in self.jobs if job["metadata"]["annotations"]["nightbench/case"] == case_id
        )

    def start(self, job: dict[str, Any], index: int) -> subprocess.Popen[str]:
        """Start a pod; killing it kills all that it has started, as the end of a pod does."""
        words = job["spec"]["template"]["spec"]["containers"][0]["command"]
        volume = f"{MOUNT}/{self.run_id}"
        pod = subprocess.Popen(
            [
                *UNSHARE,
                "sh",
                "-c",
                POD,
                "pod",
                *(w.replace(volume, str(self.folder)) for w in words),
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": "/tmp",
                "HOSTS": str(self._hosts),
                "POD": f"{job['metadata']['name']}-{index}",
                "JOB_COMPLETION_INDEX": str(index),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(pod)
        return pod

    def run(self, job: dict[str, Any]) -> str:
        """Run all pods of a Job to their end; return what the lead said."""
        pods = [self.start(job, index) for index in range(job["spec"]["completions"])]
        said = [pod.communicate(timeout=LIMIT_S)[0] for pod in pods]
        assert [pod.returncode for pod in pods] == [0] * len(pods), said
        return said[0]

    def end(self) -> None:
        """Kill what is left."""
        for pod in self._started:
            with pod:
                pod.kill()


@pytest.fixture
def here(tmp_path: Path) -> Terminal:
    for name, text in (("suites/trial.yaml", TRIAL), ("clusters/local.yaml", CLUSTER)):
        (tmp_path / "dags" / name).parent.mkdir(parents=True)
        (tmp_path / "dags" / name).write_text(text)
    return Terminal(tmp_path)


@pytest.fixture
def rendered(here: Terminal, tmp_path: Path) -> Path:
    return render(here, tmp_path)


def render(here: Terminal, tmp_path: Path, *words: str) -> Path:
    folder = tmp_path / "run"
    done = here.run("offline", "k8s", "trial", "--dir", str(folder), *words)
    assert done.returncode == 0, done.stderr
    assert f"nightbench offline load {folder}" in done.stdout
    return folder


@pytest.fixture
def kubelet(rendered: Path) -> Iterator[Kubelet]:
    made = Kubelet(rendered)
    yield made
    made.end()


def until(path: Path) -> None:
    limit = time.monotonic() + LIMIT_S
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert path.exists()


@pytest.mark.parametrize("version", ["1.32", "1.37"])
def test_what_is_rendered_is_right_for_kubernetes(rendered: Path, version: str) -> None:
    files = sorted((rendered / "kubernetes").glob("*.yaml"))
    assert [path.stem for path in files] == ["files", "job-001", "job-002", "job-003", "service"]
    for path in files:
        found = yaml.safe_load(path.read_text())
        kubernetes_validate.validate(found, version, strict=True)
        assert len(found["metadata"]["name"]) <= 63 - len("-001-99")
    job = yaml.safe_load((rendered / "kubernetes/job-002.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    assert (job["spec"]["completions"], job["spec"]["activeDeadlineSeconds"]) == (2, 3600)
    service = yaml.safe_load((rendered / "kubernetes/service.yaml").read_text())
    assert pod["subdomain"] == service["metadata"]["name"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_gangs_of_pods_are_measured_and_loaded(here: Terminal, kubelet: Kubelet) -> None:
    for job in kubelet.jobs:
        assert "repeat 2 of 2: ok" in kubelet.run(job)
    done = here.run("offline", "load", str(kubelet.folder))
    assert done.returncode == 0, done.stderr
    rows = {row["case_id"]: row for row in here.rows()}
    assert {(row["status"], row["n"]) for row in rows.values()} == {("ok", 2)}
    assert len(rows) == 3
    assert rows[GANG]["build_id"].startswith("fake-cpu-path-")
    record = here.spool.run(kubelet.run_id).case(GANG).repeat(1)
    assert record is not None
    assert set(record["clocks"]) == {"pod0", "pod1"}
    assert 0 < record["clocks"]["pod1"]["error_s"] < 0.1


def test_a_pod_that_is_killed_costs_one_repeat(here: Terminal, kubelet: Kubelet) -> None:
    job = kubelet.job_of(GANG)
    lead, other = kubelet.start(job, 0), kubelet.start(job, 1)
    until(kubelet.folder / "jobs" / GANG / "nodes/pod1/repeats/001/launched")
    other.kill()
    other.wait()
    assert kubelet.start(job, 1).wait(LIMIT_S) == 0
    said = lead.communicate(timeout=LIMIT_S)[0]
    assert "repeat 1 of 2: failed: pod1 agent_died" in said
    assert "repeat 2 of 2: ok" in said
    assert not (kubelet.folder / "jobs" / GANG / "nodes/pod0/repeats/003").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_lead_that_ends_is_followed_by_another(
    here: Terminal, kubelet: Kubelet, number: signal.Signals
) -> None:
    job = kubelet.job_of(GANG)
    lead, other = kubelet.start(job, 0), kubelet.start(job, 1)
    second = kubelet.folder / "jobs" / GANG / "nodes/pod0/repeats/002"
    until(second / "launched")
    (inside,) = children(lead.pid)
    os.kill(inside, number)
    lead.wait(LIMIT_S)
    first = (second.parent / "001/result.json").read_bytes()
    said = kubelet.start(job, 0).communicate(timeout=LIMIT_S)[0]
    assert "repeat 2 of 2: ok" in said, said
    assert "repeat 1 of 2" not in said
    assert other.wait(LIMIT_S) == 0
    assert (second.parent / "001/result.json").read_bytes() == first
    assert marked(kubelet.run_id) == []


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_result_that_was_changed_is_refused(here: Terminal, kubelet: Kubelet) -> None:
    for job in kubelet.jobs:
        kubelet.run(job)
    path = kubelet.folder / "jobs" / GANG / "nodes/pod1/repeats/002/result.json"
    path.write_text(path.read_text() + "\n")
    done = here.run("offline", "load", str(kubelet.folder))
    assert (done.returncode, "result.json: was changed after" in done.stderr) == (1, True)
    shutil.rmtree(path.parent)
    assert "result.json: is missing" in here.run("offline", "load", str(kubelet.folder)).stderr


def test_what_cannot_be_rendered_says_why(here: Terminal, tmp_path: Path) -> None:
    cluster = here.place / "dags/clusters/local.yaml"
    for wrong, said in (
        (CLUSTER.replace("fake:", "pytorch:", 1), "images: found none for fake"),
        (CLUSTER.replace("claim: runs", "claim: Runs"), 'claim: found "Runs"; expected a name'),
        (CLUSTER.replace('"1"', '"-1"'), 'found "-1"; expected a quantity'),
        (CLUSTER.split("kubernetes:")[0], "ssh_conn_id: is missing"),
    ):
        cluster.write_text(wrong)
        done = here.run("offline", "k8s", "trial", "--dir", str(tmp_path / "run"))
        assert (done.returncode, said in done.stderr) == (1, True), done.stderr
        assert not (tmp_path / "run").exists()
    cluster.write_text(CLUSTER)
    done = here.run("run", "trial", "--direct")
    assert "its nodes are pods, which have no SSH" in done.stderr
