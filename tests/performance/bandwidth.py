"""Deep Gradient Compression beside the dense all-reduce, between hosts on limited links (root).

python -m tests.performance bandwidth [--repeats 3] [--wheelhouse DIR]

Runs the suite dgc-bandwidth, as it ships, by `nightbench run --direct` on two hosts in network
namespaces of their own, whose links its cluster limits with tools/limit-link.sh. Below the
bandwidth where the lines cross, compression pays.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.drills.hosts import Lab, missing, tool

from nightbench.core.model import CaseToLoad
from nightbench.core.sentences import sentences
from nightbench.local.home import find_home
from nightbench.night.load_batch import build_load_batch
from nightbench.spool import Spool

REPO = Path(__file__).resolve().parents[2]
SUITE, LINE = "dgc-bandwidth", "pytorch"
RATES = ("full", "1gbit", "100mbit", "10mbit")
LIMITER = "/run/machine/limit-link.sh"


def allow_limits(machine: Path) -> None:
    """On a host the site's `sudo limit-link.sh`: a `tc` that may change the network."""
    shutil.copy2(REPO / "tools/limit-link.sh", machine)
    shutil.copy2(tool("tc"), machine / "tc")
    # Linux capability 12 (CAP_NET_ADMIN), permitted and effective; see capabilities(7).
    words = (0x02000001, 1 << 12, 0, 0, 0)
    value = b"".join(word.to_bytes(4, "little") for word in words)
    os.setxattr(machine / "tc", "security.capability", value)


def nightbench(place: Path, *words: str) -> None:
    """The command, in a deployment of its own; what it prints is seen."""
    argv = [sys.executable, "-c", "from nightbench.cli.entry import main; main()", *words]
    own = {"NIGHTBENCH_HOME": str(place / "home"), "NIGHTBENCH_DAGS": str(place / "dags")}
    done = subprocess.run(argv, cwd=REPO, env={**os.environ, **own}, check=False)
    if done.returncode:
        raise SystemExit(f"nightbench {words[0]} ended with {done.returncode}, see above")


def figure(case: CaseToLoad) -> tuple[float, str]:
    """Throughput of a case, and how people read it; ends where there is none."""
    found = case.measurement
    if found is None or found.throughput is None:
        raise SystemExit(f"{case.case.case_id} {case.status}: {sentences(case.reasons)}")
    spread = "one repeat" if found.spread is None else f"spread {found.spread:.0%}"
    said = f"{found.throughput:.3g} {found.unit}/s, {spread}"
    if found.sent_bytes_per_step is not None:
        said += f", {found.sent_bytes_per_step:,} bytes a step"
    return found.throughput, said


def main(words: list[str]) -> int:
    """Print a line for each bandwidth."""
    options = argparse.ArgumentParser(prog="python -m tests.performance bandwidth")
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument(
        "--wheelhouse", type=Path, help="keeps the line's wheels for the next time"
    )
    given = options.parse_args(words)
    if lacking := missing():
        print("needs what is not here:", *lacking, sep="\n  - ", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as made, Lab(Path(made) / "lab") as lab:
        first = lab.host("n1")
        for host in (first, lab.host("n2", shares_home_of=first)):
            allow_limits(host.path("/run/machine"))
        place = Path(made)
        command = ["env", "PATH=/run/machine:/usr/bin:/bin", LIMITER, "eth0"]
        wheels = (given.wheelhouse or place / "wheels").resolve()
        wheels.mkdir(parents=True, exist_ok=True)
        more = f"  wheelhouse: {wheels}\n"
        more += "  job_root: /tmp/nightbench\n"
        more += f"link: {{command: {json.dumps(command)}}}\nshared: true\n"
        for name, text in (
            ("dags/clusters/lab.yaml", lab.cluster_yaml(more=more)),
            (f"dags/suites/{SUITE}.yaml", (REPO / f"dags/suites/{SUITE}.yaml").read_text()),
            ("home/connections.json", json.dumps({"lab": lab.connection()})),
        ):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        (place / "home/tools").symlink_to(find_home().root / "tools")
        nightbench(place, "cluster", "download", "lab", "--line", LINE)
        only = ["--cluster", "lab", "--frameworks", LINE, "--repeats", str(given.repeats)]
        nightbench(place, "run", SUITE, "--direct", *only)
        (run,) = Spool(place / "home/spool").runs()
        cases = {
            (each.case.link_bandwidth, each.case.compression): figure(each)
            for each in build_load_batch(run).cases
        }
    for rate in RATES:
        (dense, dense_said), (dgc, dgc_said) = cases[rate, "none"], cases[rate, "dgc"]
        print(f"{rate:8} dense {dense_said}; dgc {dgc_said}: {dgc / dense:.2f} times dense")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
