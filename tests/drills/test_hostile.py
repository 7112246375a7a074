"""Values that want to be a command: from files and from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.drills.gangs import (
    REPO,
    check_accounts,
    job_dir,
    make_job,
    make_store,
    measure,
    with_plugins,
)
from tests.drills.hosts import Host, Lab

from nightbench.config import load_catalog, load_cluster, load_suite
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Cluster
from nightbench.gang import Shipment

TRAP = "/tmp/trap"
VALUES = {
    "substitution": f"$(touch {TRAP})",
    "backticks": f"`touch {TRAP}`",
    "semicolon": f"x; touch {TRAP}; :",
    "quotes": f"it's \"quoted\" ' ; touch {TRAP}; ' end",
    "backslash and quote": f"\\'; touch {TRAP}; echo \\'",
    "backslashes": "a\\b\\\\c\\$HOME\\n",
    "newline": f"one\ntouch {TRAP}\n",
    "fish": f"(touch {TRAP})",
    "variables": "$HOME ${PATH} ~ * ? [a] {b,c} !! #no",
    "pipes": f"| touch {TRAP} & > {TRAP} < /dev/null",
    "unicode": "Prüfstand 試験 \u202e\U0001f980",
    "half a character": "\ud83e",
    "option": "--help -rf /",
    "long": "x" * 10_000 + f"; touch {TRAP}",
}
OPTIONS = (
    "suite",
    "--cluster",
    "--frameworks",
    "--workloads",
    "--strategies",
    "--scale",
    "--build",
)
APART = ("newline", "long", "half a character")
EVERYTHING = "".join(value for name, value in VALUES.items() if name not in APART)
WHOLE = {name: value for name, value in VALUES.items() if name != "half a character"}
SUITE = """\
suite: fine
owner: tests
cluster: lab
scale: smoke
protocol: {warmup_steps: 2, measured_steps: 5, repeats: 1}
matrix:
  - workload: sleep
    frameworks: fake
    strategy: single
    batch_size_per_device: 2
"""


def sprung(*hosts: Host) -> list[str]:
    """Hosts (and this machine) on which a value was run."""
    there = [host.name for host in hosts if host.path(TRAP).exists()]
    return [*there, *(["the controller"] if Path(TRAP).exists() else [])]


async def test_a_hostile_root_and_hostile_values_are_only_text(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """As the folder on the nodes, in environments and parameters of a whole case."""
    for name in ("n1", "n2"):
        lab.host(name)
    hosts = list(lab.hosts.values())
    named = {name: value for name, value in WHOLE.items() if name != "long"}
    root = "~/" + "".join(named.values()).replace("/", "∕").replace("\n", " ")[:200]
    environment = {f"HOSTILE_{k}": value for k, value in enumerate(WHOLE.values())}
    job = make_job(
        lab,
        shipment,
        repeats=1,
        environments={"root": root, "lock_dir": f"/tmp/locks $(touch {TRAP}) 'x\\"},
        env=environment,
        **{f"hostile {k}": value for k, value in enumerate(WHOLE.values())},
    )
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    assert outcome.status is CaseStatus.OK
    check_accounts(lab, job, store, outcome)
    assert sprung(*hosts) == []
    written = json.loads((job_dir(hosts[0], job) / "job.json").read_text())
    assert written["env"] == environment
    assert hosts[0].path("/tmp/locks $(touch " + TRAP.replace("/", "∕")).parent.exists()


@pytest.mark.parametrize("value", ["everything", "newline", "long", "option"])
@pytest.mark.parametrize("option", [*OPTIONS, "--build"])
def test_the_command_refuses_hostile_values(tmp_path: Path, option: str, value: str) -> None:
    """With a message that shows the value (or its beginning), and without a traceback."""
    place = tmp_path
    (place / "dags/suites").mkdir(parents=True)
    (place / "dags/suites/fine.yaml").write_text(SUITE)
    (place / "home").mkdir()
    text = VALUES.get(value, EVERYTHING)
    words = ["run", "--direct"]
    words += ["--", text] if option == "suite" else [f"{option}={text}", "fine"]
    done = subprocess.run(
        [sys.executable, "-c", "from nightbench.cli.entry import main; main()", *words],
        cwd=REPO,
        env={
            **with_plugins(),
            "NIGHTBENCH_HOME": str(place / "home"),
            "NIGHTBENCH_DAGS": str(place / "dags"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.strip(), "no message"
    assert len(done.stderr) < len(text) + 4000, "the value again and again"
    assert not Path(TRAP).exists()


@pytest.mark.parametrize("key", ["suite", "cluster", "workload", "name", "hosts", "A", "root"])
@pytest.mark.parametrize("value", VALUES)
def test_hostile_values_in_files(tmp_path: Path, key: str, value: str) -> None:
    """A value that cannot be a name is refused with its line; elsewhere it is only text."""
    text = json.dumps(VALUES[value])
    if value == "unicode":
        text = json.dumps(VALUES[value], ensure_ascii=False).replace("\u202e", "")
    suite, cluster = (
        re.sub(rf"\b{key}: [^,}}\n]*", lambda _: f"{key}: {text}", document)
        for document in (SUITE, CLUSTER)
    )
    for name, content in (("suites/fine.yaml", suite), ("clusters/lab.yaml", cluster)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    catalog = load_catalog(REPO / "benchmarks")

    def load() -> Cluster:
        found = load_cluster(tmp_path / "clusters/lab.yaml", catalog=catalog)
        load_suite(tmp_path / "suites/fine.yaml", catalog, cluster=found)
        return found

    refused = value == "half a character" or (key == "root" and value in ("newline", "long"))
    if key in ("A", "root") and not refused:
        found = load()
        there = {"A": found.env["A"], "root": found.environments.root}[key]
        assert there == VALUES[value].replace("\u202e", "")
    else:
        with pytest.raises(UserError, match=r"\.yaml:"):
            load()
    assert not Path(TRAP).exists()


CLUSTER = """\
cluster: lab
nodes:
  - hosts: 10.1.1.1
    name: n1
    ssh_conn_id: lab
env: {A: b}
environments: {kind: venv, root: ~/x}
"""
