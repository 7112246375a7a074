"""Environments on nodes without internet and on a home that nodes share, over real sshd and uv."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.openssh import SshNodes, openssh_nodes
from tests.jobs import gang_job
from tests.shipped import shipped
from tests.wheels import make_wheel

from nightbench.core.model import (
    CaseStatus,
    Cluster,
    JobSpec,
    Node,
    Protocol,
    Reason,
    ReasonCode,
)
from nightbench.gang import GangEvent, Shipment, SshTransport, cancel_run, prepare
from nightbench.gang.errors import (
    Cancelled,
    EnvironmentUnavailable,
    MachinesDiffer,
    NodeUnreachable,
    RemoteFailure,
)
from nightbench.spool import CaseStore, Spool

pytestmark = pytest.mark.openssh
REPO = Path(__file__).resolve().parents[2]
SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Ground:
    """A shipped tree with a small framework line, its wheels, and two nodes."""

    def __init__(self, folder: Path, nodes: SshNodes) -> None:
        self.nodes = nodes
        self.root = folder / "root"
        self.house = folder / "house"
        self.benchmarks = shipped(folder)
        line = self.benchmarks / "frameworks" / "tiny"
        line.mkdir()
        about = {"line": "tiny", "version": "1.0", "package": "tiny_main"}
        about |= {"variants": {"cpu": {"device": "cpu", "pythons": [SERIES]}}, "size_bytes": 1000}
        (line / "framework.json").write_text(json.dumps(about))
        lock = ""
        for name, size in (("tiny_dep", 0), ("tiny_main", 9_000_000)):
            wheel = make_wheel(self.house, name, "1.0", ballast=size)
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            lock += f"{name.replace('_', '-')}==1.0 \\\n    --hash=sha256:{digest}\n"
        (line / "requirements-cpu.lock").write_text(lock)
        make_wheel(self.house, "not_needed", "1.0")
        make_wheel(self.house, "tiny_dep", "2.0")
        # The index of the nodes is a place that nobody can reach.
        self.python = folder / "python-without-index"
        self.python.write_text(
            "#!/bin/sh\nunset $(env | grep -o '^\\(PIP\\|UV\\)_[A-Z_]*') PIP_X\n"
            "export PIP_CONFIG_FILE=/dev/null UV_DEFAULT_INDEX=http://127.0.0.1:9/ "
            f'UV_HTTP_RETRIES=0 UV_PYTHON_DOWNLOADS=never\nexec {sys.executable} "$@"\n'
        )
        self.python.chmod(0o755)
        self.about, self.folder = about, folder
        uv = Path(sys.prefix) / "bin" / "uv"
        found = str(uv) if uv.is_file() else shutil.which("uv")
        if found is None:
            pytest.skip("needs uv: `make setup` brings it")
        self.shipment = Shipment(self.benchmarks, Path(found), "test", self.house)
        self.events: list[GangEvent] = []

    def give_pythons(self, supported: list[str], **of_node: str) -> None:
        """State the Pythons of the lock; give nodes one more interpreter, by its series.

        `interpreters.find` takes its word; what it names is this test's own interpreter.
        """
        described = {"device": "cpu", "pythons": supported}
        self.about["variants"] = {"cpu": described}
        line = self.benchmarks / "frameworks" / "tiny"
        (line / "framework.json").write_text(json.dumps(self.about))
        text = self.python.read_text()
        for node, series in of_node.items():
            bin_folder = self.folder / f"bin-{node}"
            bin_folder.mkdir()
            own = bin_folder / f"python{series}"
            own.write_text(f"#!/bin/sh\nprintf '%s\\n' {series} {sys.executable}\n")
            own.chmod(0o755)
            more = f'[ "$NIGHTBENCH_AGENT_NODE" != {node} ] || PATH={bin_folder}:$PATH\n'
            text = text.replace("#!/bin/sh\n", f"#!/bin/sh\n{more}", 1)
        self.python.write_text(text)

    def job(self, nodes: tuple[Node, ...], **changes: object) -> JobSpec:
        policy = self.nodes.environments.model_copy(
            update={"root": str(self.root), "python": str(self.python)}
        )
        job = gang_job(
            nodes,
            line="tiny",
            run_id=f"test-{os.getpid()}",
            protocol=Protocol(2, 10, 3),
            code_digest=self.shipment.code_digest(),
            environments=policy,
        )
        return dataclasses.replace(job, **changes)

    async def prepare(self, job: JobSpec, store: CaseStore | None = None) -> None:
        await prepare(job, self.nodes.targets, self.shipment, self.events.append, store)

    def said(self, kind: str) -> list[str]:
        return [e.message for e in self.events if e.kind == kind]

    def environments(self) -> list[str]:
        return sorted(os.listdir(self.root / "envs"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNodes]:
    with openssh_nodes(tmp_path_factory.mktemp("nodes")) as found:
        yield found


@pytest.fixture
def ground(tmp_path: Path, nodes: SshNodes) -> Ground:
    return Ground(tmp_path, nodes)


def processes_of(text: str) -> list[str]:
    """Command lines on this machine that hold a text."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if text in line and "pytest" not in line:
            found.append(line)
    return found


async def test_only_the_wheels_of_the_lock_are_shipped_and_once(ground):
    job = ground.job(ground.nodes.nodes[:1])
    await ground.prepare(job)
    shipped = [said.split()[0] for said in ground.said("ship")]
    assert [name for name in shipped if name.endswith(".whl")] == [
        "tiny_dep-1.0-py3-none-any.whl",
        "tiny_main-1.0-py3-none-any.whl",
    ]
    (env,) = ground.environments()
    script = "import tiny_main, tiny_dep; print(tiny_main.VERSION, tiny_dep.VERSION)"
    python = ground.root / "envs" / env / "bin" / "python"
    assert subprocess.check_output([python, "-c", script], text=True) == "1.0 1.0\n"
    ground.events.clear()
    shutil.rmtree(ground.root / "envs" / env)
    wheels = sorted((ground.root / "wheels").iterdir())
    for folder in wheels:
        os.utime(folder, (0, 0))
    await ground.prepare(job)
    assert ground.said("ship") == [], "what is there is not sent again"
    unused = [folder for folder in wheels if folder.stat().st_mtime == 0]
    assert unused == [], "`clean` keeps what a build uses"
    assert ground.environments() == [env]


async def test_what_the_wheelhouse_lacks_is_said_before_anything_is_sent(ground):
    (ground.house / "tiny_dep-1.0-py3-none-any.whl").unlink()
    make_wheel(ground.house, "tiny_main", "1.0", ballast=10)
    with pytest.raises(EnvironmentUnavailable) as caught:
        await ground.prepare(ground.job(ground.nodes.nodes[:1]))
    message = str(caught.value)
    assert "tiny-dep 1.0 is missing" in message
    assert "tiny_main-1.0-py3-none-any.whl is not the lock's build" in message
    assert "cluster download" in message
    assert ground.said("ship") == []


async def test_other_architectures_are_refused_before_anything_is_sent(ground):
    """The line has no wheels for the node's; the node's is not what the cluster's file states."""
    (node,) = ground.nodes.nodes[:1]
    stated = dataclasses.replace(node, machine="aarch64")
    with pytest.raises(MachinesDiffer, match="file of cluster test states `machine: aarch64`"):
        await ground.prepare(ground.job((stated,)))
    file = ground.benchmarks / "frameworks" / "tiny" / "framework.json"
    about = json.loads(file.read_text())
    about["variants"]["cpu"]["machines"] = ["aarch64"]
    file.write_text(json.dumps(about))
    with pytest.raises(EnvironmentUnavailable, match="has wheels for aarch64, but the node is"):
        await ground.prepare(ground.job((node,)))
    assert not ground.root.exists()


async def test_the_shipped_uv_is_named_by_version_and_machine(ground):
    await ground.prepare(ground.job(ground.nodes.nodes[:1]))
    assert os.listdir(ground.root / "tools") == [f"uv-test-{os.uname().machine}"]


class Cut(SshTransport):
    """A transport whose connection breaks in the middle of the first big upload."""

    pieces = 0

    @asynccontextmanager
    async def guard(self, what, timeout_s):
        if what.startswith("upload") and "tiny_main" in what and timeout_s != 30.0:
            Cut.pieces += 1  # twice for each piece: reaching the node, and sending
            if Cut.pieces == 4:
                self._drop()
                raise NodeUnreachable(self.node, self.address, "cut")
        async with super().guard(what, timeout_s):
            yield


async def test_an_upload_that_broke_off_goes_on(ground, caplog, monkeypatch):
    caplog.set_level("INFO")
    job = ground.job(ground.nodes.nodes[:1])
    with monkeypatch.context() as cut:
        cut.setattr("nightbench.gang.node_access.shared_transport", Cut)
        with pytest.raises(NodeUnreachable, match="cut"):
            await ground.prepare(job)
    wheel = ground.house / "tiny_main-1.0-py3-none-any.whl"
    (part,) = ground.root.glob("wheels/*/.tiny_main*.part")
    assert 0 < part.stat().st_size < wheel.stat().st_size
    await ground.prepare(job)
    (whole,) = ground.root.glob("wheels/*/tiny_main*.whl")
    assert whole.read_bytes() == wheel.read_bytes()
    assert not list(ground.root.glob("wheels/*/.*"))


async def test_a_shared_home_gets_one_build(ground):
    """Both nodes see one root; each has its own lock, as its sshd has its own address."""
    # An environment that is there in no time leaves the other node nothing to wait for.
    slow, real = ground.root.parent / "slow-uv", str(ground.shipment.uv)
    slow.write_text(f'#!/bin/sh\ncase "$*" in *install*) sleep 5;; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    ground.shipment = dataclasses.replace(ground.shipment, uv=slow, uv_version="slow")
    jobs = [ground.job((node,)) for node in ground.nodes.nodes]
    await asyncio.gather(*(ground.prepare(job) for job in jobs))
    built = [said for said in ground.said("provision") if "built in" in said]
    assert len(built) == 1, ground.said("provision")
    waited = [said for said in ground.said("provision") if "another node builds it" in said]
    assert len(waited) == 1, ground.said("provision")
    (env,) = ground.environments()
    assert env.startswith("tiny-cpu-")
    names = [
        e.message.split()[0] for e in ground.events if e.kind == "ship" and " MB)" in e.message
    ]
    assert names.count("tiny_main-1.0-py3-none-any.whl") == 1, "what is big is sent once"
    assert not list(ground.root.glob("wheels/*/*.uploading"))


class Late(SshTransport):
    """A transport that claims an upload just after another node has ended its own."""

    house: Path

    async def mkdir(self, path):
        whole = Path(path.removesuffix(".uploading"))
        if whole.name.startswith("tiny_main"):
            shutil.copy(Late.house / whole.name, whole)
        return await super().mkdir(path)


async def test_what_another_has_just_uploaded_is_not_sent_again(ground, monkeypatch):
    Late.house = ground.house
    monkeypatch.setattr("nightbench.gang.node_access.shared_transport", Late)
    await ground.prepare(ground.job(ground.nodes.nodes[:1]))
    assert [said for said in ground.said("ship") if "tiny_main" in said] == []
    assert len(ground.environments()) == 1
    assert not list(ground.root.glob("wheels/*/*.uploading"))


def use_slow_uv(ground: Ground) -> None:
    """Install with a uv that sleeps for 97.5 s before."""
    slow = ground.root.parent / "slow-uv"
    real = str(ground.shipment.uv)
    slow.write_text(f'#!/bin/sh\ncase "$*" in *install*) sleep 97.5;; esac\nexec {real} "$@"\n')
    slow.chmod(0o755)
    ground.shipment = dataclasses.replace(ground.shipment, uv=slow, uv_version="slow")


async def until_it_installs(ground: Ground) -> None:
    for _ in range(300):
        if processes_of("sleep 97.5"):
            break
        await asyncio.sleep(0.1)
    assert processes_of("sleep 97.5"), ground.said("provision")


async def test_cancel_ends_a_build_on_the_nodes(ground):
    use_slow_uv(ground)
    job = ground.job(ground.nodes.nodes[:1])
    preparing = asyncio.create_task(ground.prepare(job))
    await until_it_installs(ground)
    cluster = Cluster("test", job.nodes, environments=job.environments)
    report = await cancel_run(job.run_id, cluster, ground.nodes.targets)
    assert processes_of("sleep 97.5") == []
    assert report.killed["n1"]
    assert ground.environments() == [], "no half environment and no lock stays behind"
    with pytest.raises(RemoteFailure):
        await preparing


async def test_an_outcome_ends_the_preparation_of_its_case(ground, tmp_path):
    use_slow_uv(ground)
    job = ground.job(ground.nodes.nodes[:1])
    store = Spool(tmp_path).run(job.run_id).case(job.case.case_id)
    preparing = asyncio.create_task(ground.prepare(job, store=store))
    await until_it_installs(ground)
    store.end(CaseStatus.CANCELLED, [Reason(ReasonCode.CANCELLED, observed="by ann")])
    with pytest.raises(Cancelled, match="by ann"):
        await preparing
    until = time.monotonic() + 120
    while time.monotonic() < until and (processes_of("sleep 97.5") or ground.environments()):
        await asyncio.sleep(0.1)
    assert processes_of("sleep 97.5") == []
    with pytest.raises(Cancelled):
        await ground.prepare(job, store=store)


async def test_a_builder_that_was_killed_leaves_nothing_in_the_way(ground):
    real = str(ground.shipment.uv)
    use_slow_uv(ground)
    job = ground.job(ground.nodes.nodes[:1])
    preparing = asyncio.create_task(ground.prepare(job))
    await until_it_installs(ground)
    half = ground.environments()
    assert any(name.startswith(".building-") for name in half)
    preparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await preparing
    until = time.monotonic() + 120
    while time.monotonic() < until and (processes_of("sleep 97.5") or ground.environments()):
        await asyncio.sleep(0.1)
    assert processes_of("sleep 97.5") == []
    assert processes_of(str(ground.root)) == []
    assert ground.environments() == [], "no half environment and no lock stays behind"
    ground.shipment = dataclasses.replace(ground.shipment, uv=Path(real), uv_version="test")
    await ground.prepare(job)
    assert len(ground.environments()) == 1


async def test_a_gang_has_one_python_that_all_its_nodes_have(ground):
    one, two = ground.nodes.nodes[:2]
    ground.shipment = dataclasses.replace(ground.shipment, wheelhouse=None)
    ground.give_pythons([SERIES, "3.98"], **{two.name: "3.98"})
    policy = ground.nodes.environments.model_copy(update={"find_links": (str(ground.house),)})
    job = ground.job((one, two), code_digest=ground.shipment.code_digest())
    job = dataclasses.replace(
        job,
        environments=job.environments.model_copy(
            update=dict(find_links=policy.find_links, index_url=ground.house.as_uri())
        ),
    )
    await ground.prepare(job)
    folder = ground.root / "jobs"
    interpreters = [path.read_text() for path in folder.rglob("python")]
    assert len(interpreters) == 2
    assert all(f"-py{SERIES}-" in each for each in interpreters)


async def test_a_wheelhouse_serves_the_newest_python_of_the_node(ground):
    one = ground.nodes.nodes[0]
    ground.give_pythons([SERIES, "3.98"], **{one.name: "3.98"})
    job = ground.job((one,), code_digest=ground.shipment.code_digest())
    await ground.prepare(job)
    (env,) = ground.environments()
    assert "-py3.98-" in env
