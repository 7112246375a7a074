"""Commits of a real repository, built on a node over real SSH, and compared."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.integration.openssh import SshNodes, local_nodes
from tests.integration.toy_line import LINE, REPO, make_benchmarks, make_wheel
from tests.recording import Unrecorded

from nightbench.config import load_catalog
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Case,
    Cluster,
    ComparePolicy,
    GitRepository,
    Protocol,
    Strategy,
    Suite,
)
from nightbench.core.model.experiments import Experiment, ExperimentKind
from nightbench.experiments.compare import measure_compare
from nightbench.experiments.engine import ExperimentContext, Turn
from nightbench.experiments.record import Ended
from nightbench.experiments.reporting import ComparisonReporter
from nightbench.gang import local_shipment
from nightbench.gang.commits import CommitBuild, CommitFailed, build_commit
from nightbench.spool import Spool

CASE = Case("sleep", LINE, Strategy.SINGLE, batch_size_per_device=2, scale="smoke")
PROTOCOL = Protocol(warmup_steps=1, measured_steps=12, repeats=3)
SCRIPT = f"""\
import pathlib, sys
sys.path.insert(0, {str(REPO)!r})
from tests.integration.toy_line import make_wheel
make_wheel(pathlib.Path(sys.argv[1]), "2.0", float(open("step_s").read()))
"""

pytestmark = pytest.mark.slow


@dataclass
class Ground:
    """A repository of the toy framework, a cluster that builds its commits, and a spool."""

    folder: Path
    context: ExperimentContext
    spool: Spool

    def commit(self, step_s: float, script: str = SCRIPT) -> str:
        """Commit a framework whose steps take so long, and return the commit."""
        (self.folder / "repository/build.py").write_text(script)
        (self.folder / "repository/step_s").write_text(str(step_s))
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", f"steps of {step_s} s")
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        """Run git in the repository, and return what it says."""
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        words = ("git", "-C", str(self.folder / "repository"), *who, *words)
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def builds(self) -> list[str]:
        """The commit of every run of the recipe."""
        ran = self.folder / "ran"
        return ran.read_text().split() if ran.exists() else []

    def left(self) -> list[str]:
        """What lies on the node beside the repository."""
        folder = self.folder / "root/commits/tiny"
        return sorted(path.name for path in folder.iterdir() if path.name != "mirror.git")

    async def build(self, commit: str, timeout_s: float = 300.0) -> str:
        """Build a commit, and return the build by its wheel."""
        context = self.context
        build = CommitBuild(context.cluster, LINE, "tiny", commit)
        access = (context.targets, context.shipment)
        return await build_commit(build, *access, self.spool.uploads, timeout_s)

    def asked(self, name: str, b: str, a: str = f"{LINE}=commit:tiny@merge-base") -> Experiment:
        """A request as the queue keeps it."""
        request = {"a": a, "b": f"{LINE}=commit:tiny@{b}", "suite": "trial", "rounds": 3}
        request |= {"cases": [CASE.case_id], "min_effect": 0.3}
        where = ("trial", "local", "ada")
        name = f"{name}-{self.folder.name}"
        return Experiment(name, ExperimentKind.COMPARE, request, *where, dag_run_id="run-1")

    def measure(self, asked: Experiment, by: Callable[[], str | None] = lambda: None) -> Ended:
        """Measure a request."""
        observer, record = ComparisonReporter(print), Unrecorded(asked, by)
        work = measure_compare(Turn(record, self.spool, self.context, observer))
        return asyncio.run(work)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshNodes]:
    with local_nodes(tmp_path_factory.mktemp("commits")) as found:
        yield found


@pytest.fixture
def ground(nodes: SshNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    copy = make_benchmarks(tmp_path / "benchmarks", make_wheel(tmp_path / "wheels", "1.0", 0.1))
    recipe = (f'echo "$COMMIT" >> {tmp_path}/ran', '"$PYTHON" build.py "$OUT"')
    (tmp_path / "repository").mkdir()
    repositories = {"tiny": GitRepository(url=str(tmp_path / "repository"), recipe=recipe)}
    cluster = Cluster(
        "local",
        nodes.nodes,
        shared=True,
        environments=nodes.environments.model_copy(update={"root": str(tmp_path / "root")}),
        compare=ComparePolicy(repositories=repositories),
    )
    context = ExperimentContext(
        Suite("trial", "tests", "local", (CASE,), protocol=PROTOCOL),
        cluster,
        load_catalog(copy),
        targets=nodes.targets,
        shipment=local_shipment(None, copy),
    )
    ground = Ground(tmp_path, context, Spool(tmp_path / "spool"))
    ground.git("init", "--quiet", "--initial-branch", "main")
    return ground


def test_a_commit_is_compared_with_where_it_left_its_branch(ground: Ground) -> None:
    base = ground.commit(0.1)
    ground.git("checkout", "--quiet", "-b", "change")
    slower = ground.commit(0.2)
    ground.git("checkout", "--quiet", "main")
    ground.commit(0.3)
    ended = ground.measure(ground.asked("one", slower))
    assert ended.state == "done"
    document = ended.result or {}
    assert document["verdict"] == "slower"
    commits = document["commits"]
    assert (commits["a"]["commit"], commits["b"]["commit"]) == (base, slower)
    assert b"build.py" in (ground.spool.uploads.log(commits["b"]["build"]) or b"")
    # Another request of the same commits builds nothing again.
    assert ground.builds() == [slower, base]
    texts = [asyncio.run(ground.build(commit)) for commit in (base, slower)]
    assert len(set(texts)) == 2
    assert ground.builds() == [slower, base]
    assert ground.left() == []
    with pytest.raises(UserError, match="is itself on the branch main"):
        ground.measure(ground.asked("two", base))


def test_a_build_that_fails_says_how(ground: Ground) -> None:
    broken = ground.commit(0.1, "print('no compiler here'); raise SystemExit(3)")
    with pytest.raises(CommitFailed, match=r"build\.py.* ended with 3\n(.*\n)*no compiler here"):
        asyncio.run(ground.build(broken))
    nothing = ground.commit(0.1, "")
    with pytest.raises(CommitFailed, match=r"left nothing in \$OUT; expected one wheel"):
        asyncio.run(ground.build(nothing))
    with pytest.raises(CommitFailed, match="`git fetch` ended with"):
        asyncio.run(ground.build("0" * 40))
    assert ground.left() == []


def processes(word: str) -> list[int]:
    """Processes with a word in their command line."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if word in Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0"):
                found.append(int(pid))
    return found


async def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < ends
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("how", ["controller", "agent"])
def test_a_build_that_was_killed_is_made_again_and_leaves_nothing(ground: Ground, how: str) -> None:
    word = f"7{os.getpid()}"
    once = f"import os, pathlib\nmark = pathlib.Path({str(ground.folder / 'mark')!r})\n"
    once += f"if not mark.exists():\n    mark.touch()\n    os.system('setsid sleep {word}')\n"
    commit = ground.commit(0.1, once + SCRIPT)

    async def kill() -> None:
        building = asyncio.create_task(ground.build(commit))
        await until(lambda: processes(word))
        if how == "agent":
            for pid in processes("commit"):
                if str(ground.folder / "root") in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
        else:
            building.cancel()
        with pytest.raises((asyncio.CancelledError, UserError)):
            await building

    asyncio.run(kill())
    if how == "controller":
        asyncio.run(until(lambda: not processes(word) and not ground.left()))
    assert asyncio.run(ground.build(commit)).endswith("/toy_framework-2.0-py3-none-any.whl")
    assert ground.builds() == [commit, commit]
    assert not processes(word)
    assert ground.left() == []


def test_one_whose_gap_ends_while_it_is_built_waits_again(ground: Ground) -> None:
    base = ground.commit(0.1)
    ground.git("checkout", "--quiet", "-b", "change")
    slow = ground.commit(0.1, "import time; time.sleep(600)")
    asked = ground.asked("one", slow, f"{LINE}=commit:tiny@{base}")
    soon = datetime.now(UTC) + timedelta(seconds=8)
    ground.context = dataclasses.replace(ground.context, deadline=soon)
    assert ground.measure(asked).state == "queued"
    ground.context = dataclasses.replace(ground.context, deadline=None)
    # On a busy machine the gap may have ended before the first one began.
    begun = len(ground.builds())
    ended = ground.measure(asked, lambda: "bob" if slow in ground.builds()[begun:] else None)
    assert ended.state == "cancelled"
    asyncio.run(until(lambda: not ground.left()))
