"""One gang of 160 processes on 20 local nodes: how long until all of it is past the barrier.

python -m tests.performance one_gang [--nodes 20] [--trainers 100] [--pservers 60]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator

from tests.performance.ground import Ground, Meter, cpu_s, ground, left_over, say

from nightbench.core.model import CaseStatus, JobSpec, Protocol
from nightbench.gang import GangEvent, prepare, run_gang


async def measure(field: Ground, job: JobSpec) -> bool:
    """Run the gang and print its figures."""
    heard: list[tuple[float, GangEvent]] = []

    def hear(event: GangEvent) -> None:
        heard.append((time.monotonic(), event))

    began_s = time.monotonic()
    await prepare(job, field.targets, field.shipment, hear)
    say("code brought and nodes prepared", time.monotonic() - began_s, "s")
    meter, server_s, began_s = Meter.now(), field.server_cpu_s(), time.monotonic()
    outcome = await run_gang(job, field.targets, field.store(job), hear)
    ended_s = time.monotonic()
    gos = [at for at, event in heard if event.kind == "repeat" and event.message == "go"]
    ends = [at for at, event in heard if event.kind == "repeat" and event.message != "go"]
    for repeat in range(1, job.protocol.repeats + 1):
        launched = [
            event["t_s"]
            for node in job.nodes
            for event in field.agent_log(job, node.name)
            if event["event"] == "launch" and event["repeat"] == repeat
        ]
        stepping = [at for node in job.nodes for at in _barriers(field, job, node.name, repeat)]
        if not launched or not stepping or len(gos) < repeat:
            print(f"repeat {repeat} was not launched: {outcome.why}")
            return False
        if repeat == 1:
            say("run_gang called to go (locks, fingerprints, ports)", gos[0] - began_s, "s")
            say(
                f"run_gang called to all {len(launched)} past the barrier",
                max(stepping) - began_s,
                "s",
            )
        else:
            say(
                f"repeat {repeat}: end of the one before to go",
                gos[repeat - 1] - ends[repeat - 2],
                "s",
            )
        go_s = gos[repeat - 1]
        say(f"repeat {repeat}: go to the last process launched", max(launched) - go_s, "s")
        say(
            f"repeat {repeat}: go to the last trainer past the barrier",
            max(stepping) - go_s,
            "s",
            "(wanted: under 10 s)",
        )
    say("last repeat's record to outcome", ended_s - ends[-1], "s")
    say("controller: CPU", meter.cores(), "cores")
    say("controller: CPU in all", cpu_s() - meter.cpu_s, "s")
    say("SSH server: CPU in all", field.server_cpu_s() - server_s, "s")
    left = left_over(job.run_id)
    say("processes left", len(left), "")
    print(f"outcome: {outcome.status} {outcome.why}")
    return outcome.status is CaseStatus.OK and not left


def _barriers(field: Ground, job: JobSpec, node: str, repeat: int) -> Iterator[float]:
    """When each trainer of a node began to step: it has passed the barrier then."""
    for path in (field.folder_of(job, node) / "repeats" / f"{repeat:03d}").glob(
        "trainer-*/steps.jsonl"
    ):
        for line in path.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):  # cut off by a kill
                record = json.loads(line)
                if record.get("phase") == "warmup" and record["kind"] == "phase":
                    yield record["t_s"]


def main(words: list[str]) -> int:
    """The command line; 1 where the gang did not end clean."""
    parser = argparse.ArgumentParser(prog="tests.performance one_gang", description=__doc__)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--trainers", type=int, default=100)
    parser.add_argument("--pservers", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(words)
    with ground(options.nodes) as field:
        job = field.job(
            "figures-one",
            field.nodes,
            options.trainers,
            options.pservers,
            Protocol(2, 20, options.repeats),
            step_s=0.1,
        )
        return 0 if asyncio.run(measure(field, job)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
