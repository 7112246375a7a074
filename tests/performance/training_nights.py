"""Whether good nights of the shipped cases are reported as changed.

    python -m tests.performance training_nights --environments FOLDER [--record FILE] [--minutes 9]
    python -m tests.performance training_nights --record FILE --table

Every case that a shipped suite plans on this machine's CPUs is trained as it is, and once under
each condition of `training_changes.py`: CPUs, threads, instruction sets. The window begins after as
many steps as in the suite. Each of 30 nights has the losses of one of these trainings. Asynchronous
trainers differ each time: they are trained 30 times [--trainings], each under one of the
conditions. If the losses differ each time, also because a line draws other random numbers, a night
has three repeats, each with the losses of one training. FILE has a line of JSON for each case, with
the losses of its trainings: its cases are left out, so that a command that ended after some minutes
can be continued. The table judges these losses with the present rules: it has the nights that were
`changed`, and the largest difference of a loss from the plain training: of 1, or of the loss if
that is more. Lines without losses have the verdicts of an earlier rule.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.performance.training import NIGHTS, Trained, alerts, difference, drawn, train, traits_of
from tests.performance.training_changes import CONDITIONS, Change

from nightbench.config import find_suites, load_catalog
from nightbench.config.locations import benchmarks_folder, dags_folder
from nightbench.config.suites import suite_and_cluster
from nightbench.core.model import Case
from nightbench.core.summarize import asynchronous
from nightbench.detection.training_night import FIGURES
from nightbench.detection.training_tolerance import ROUNDING
from nightbench.testkit.gangs import build_environment

STEPS = 20
STEPS_WITH_SERVERS = 100
"""Of the window: asynchronous trainers are compared over so many as well."""
CALLED = {"again": "without a change"}
"""Conditions with another name in the table."""


def shipped_cases() -> dict[Case, int]:
    """Return the cases of all shipped suites without commands, and their steps before a window."""
    catalog = load_catalog(benchmarks_folder())
    found = dict[Case, int]()
    for path in find_suites(dags_folder()).values():
        suite, _ = suite_and_cluster(path, catalog)
        for case in suite.cases:
            if case.workload in catalog.workloads:
                found[case] = max(suite.protocol.warmup_steps, found.get(case, 0))
    return found


def trained(
    case: Case, warmup_steps: int, python: str, trainings: int
) -> Iterator[tuple[str, Trained]]:
    """Yield the name of a condition and a training under it; the first is plain.

    There are as many as `trainings` if the case is asynchronous.
    """
    steps = STEPS_WITH_SERVERS if asynchronous(case) else STEPS
    names = list(CONDITIONS)
    if asynchronous(case):
        names = random.Random(1).choices(names, k=trainings - 1)
    for name, change in [("plain", Change()), *((name, CONDITIONS[name]) for name in names)]:
        yield name, train(case, python, change, steps, warmup_steps)


def recorded(case: Case, warmup_steps: int, python: str, trainings: int) -> dict[str, Any]:
    """Train a case; return its line of the record."""
    began = time.monotonic()
    try:
        named = list(trained(case, warmup_steps, python, trainings))
    except AssertionError as error:
        return {"case": case.case_id, "failed": str(error).strip().splitlines()[-1][:200]}
    found = [each for _, each in named]
    return {
        "case": case.case_id,
        "line": case.framework,
        "has_dropout": found[0].has_dropout,
        "warmup_steps": warmup_steps,
        "losses": [(name, each.losses) for name, each in named],
        "refused": sorted({check for each in found for check in each.refusing}),
        "seconds": round(time.monotonic() - began),
    }


def judged(case: Case, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the record with the verdicts on its nights."""
    if "losses" not in row:
        return dict(row)
    _, plain = row["losses"][0]
    apart = {
        name: max(
            difference(losses[figure], plain[figure]) for figure in FIGURES if figure in plain
        )
        for name, losses in row["losses"]
    }
    varies = asynchronous(case) or apart["again"] > ROUNDING[case.precision]["again"]
    nights = drawn([("1", losses) for _, losses in row["losses"]], 3 if varies else 1)
    traits = traits_of(case, row["has_dropout"], row["warmup_steps"])
    worst = max(apart, key=lambda name: apart[name])
    under = worst if apart[worst] else None
    return {**row, "changed": alerts(nights, traits), "apart": apart[worst], "under": under}


def table(rows: Collection[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of a record: one for each workload and batch size.

    Cases that did not train, or whose repeats a check refused, follow below it.
    """
    catalog = load_catalog(benchmarks_folder())
    titles = {name: info.title for name, info in catalog.frameworks.items()}
    cases = {case.case_id: case for case in shipped_cases()}
    groups = defaultdict[tuple[str, int | str], list[Mapping[str, Any]]](list)
    for row in rows:
        case = cases[row["case"]]
        groups[_group(case)].append(judged(case, row))
    of = {key: sum(_group(case) == key for case in cases.values()) for key in groups}
    yield "| workload, batch size | lines | cases | largest difference | alerts in 30 nights |"
    yield "|---|---|---|---|---|"
    for key, found in sorted(groups.items()):
        trained = [row for row in found if "failed" not in row]
        worst = max(trained, key=lambda row: row["apart"], default=None)
        apart = f"{worst['apart']:.1e}" if worst else "-"
        if worst and worst["apart"]:
            apart += f" ({titles[worst['line']]}, {CALLED.get(worst['under'], worst['under'])})"
        cells = [
            f"`{key[0]}`, {key[1]}",
            ", ".join(sorted({titles[row["line"]] for row in trained})),
            f"{len(trained)} of {of[key]}",
            apart,
            str(max((row["changed"] for row in trained), default="-")),
        ]
        yield f"| {' | '.join(cells)} |"
    for row in rows:
        if problem := row.get("failed") or ", ".join(row["refused"]):
            yield f"{row['case']}: {problem}"


def _group(case: Case) -> tuple[str, int | str]:
    return case.workload, case.batch_size_per_device


def _chosen(given: argparse.Namespace, done: Collection[str]) -> list[tuple[Case, int]]:
    cases = [
        (case, warmup_steps)
        for case, warmup_steps in shipped_cases().items()
        if case.case_id not in done
        and (not given.lines or case.framework in given.lines)
        and (not given.workloads or case.workload in given.workloads)
        and (not given.strategies or case.strategy in given.strategies)
        and case.trainers <= given.trainers
    ]
    order = {name: number for number, name in enumerate(given.workloads or ())}
    return sorted(cases, key=lambda each: (order.get(each[0].workload, 0), asynchronous(each[0])))


def main(words: list[str]) -> int:
    """Run; see the module."""
    parser = argparse.ArgumentParser(
        prog="training_nights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--environments", type=Path, help="folder; built if they are absent")
    parser.add_argument("--record", type=Path, help="file of the lines")
    parser.add_argument("--table", action="store_true", help="train nothing: print the record")
    parser.add_argument("--minutes", type=float, default=10**6, help="begin no case after these")
    parser.add_argument(
        "--trainings", type=int, default=NIGHTS, help="of an asynchronous case [default: 30]"
    )
    parser.add_argument("--lines", nargs="*", help="framework lines [default: all]")
    parser.add_argument("--workloads", nargs="*", help="in this order [default: all]")
    parser.add_argument("--strategies", nargs="*", help="[default: all]")
    parser.add_argument("--trainers", type=int, default=2, help="at most [default: 2]")
    given = parser.parse_args(words)
    began = time.monotonic()
    record = given.record
    python_of = cache(partial(build_environment, given.environments))
    lines = record.read_text().splitlines() if record and record.exists() else []
    if given.table:
        print("\n".join(table([json.loads(line) for line in lines])))
        return 0
    if given.environments is None:
        parser.error("--environments is missing")
    for case, warmup_steps in _chosen(given, {json.loads(line)["case"] for line in lines}):
        if time.monotonic() > began + 60 * given.minutes:
            break
        row = recorded(case, warmup_steps, python_of(case.framework), given.trainings)
        shown = judged(case, row)
        print(json.dumps({key: x for key, x in shown.items() if key != "losses"}), flush=True)
        if record:
            with record.open("a") as stream:
                stream.write(f"{json.dumps(row)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
