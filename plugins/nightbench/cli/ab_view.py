"""How a comparison of two builds is shown: its progress, its answer, its message."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from nightbench.experiments.paired import percent
from nightbench.experiments.rounds import Side
from nightbench.gang.events import GangEvent
from nightbench.report.tables import figure

if TYPE_CHECKING:
    from nightbench.experiments.compare import Ended, Listener
    from nightbench.experiments.comparisons import ComparedCase, ComparisonPlan
    from nightbench.spool import RunSpool

_QUIET_S = 30.0
_COLOURS = {"faster": "green", "same": "green", "slower": "red", "inconclusive": "yellow"}

Document = Mapping[str, Any]


class View:
    """Lines that tell how a comparison goes: one for each launch, and one when it is quiet.

    Args:
        console: where to.
        plan: what is compared.
        folder: its files.
    """

    def __init__(self, console: Console, plan: ComparisonPlan, folder: RunSpool) -> None:
        self._console = console
        self._plan = plan
        self._folder = folder
        self._now: tuple[ComparedCase, int, str] | None = None
        self._said_s = time.monotonic()

    def headline(self) -> None:
        """Say what is compared, and how it can be taken up again."""
        plan = self._plan
        a, b = (plan.builds[side].build_id for side in Side)
        self._line(
            f"{plan.comparison_id}: A {a}, B {b}, {len(plan.cases)} "
            f"{'case' if len(plan.cases) == 1 else 'cases'}, {plan.rounds} rounds on "
            f"{plan.cluster.name}"
        )
        if a == b:
            self._line("A and B are the same build: this shows what noise alone looks like")

    def listener(self) -> Listener:
        """What hears the measurement."""
        from nightbench.experiments.compare import Listener

        return Listener(self._hear, self._begin, self._end)

    def refresh(self) -> None:
        """Say where the launch stands that has been going for a while."""
        if self._now is None or time.monotonic() - self._said_s < _QUIET_S:
            return
        case, number, label = self._now
        progress = self._folder.case(case.case_id, number).progress() or {}
        parts = [str(progress.get("state") or "preparing")]
        if progress.get("phase") and progress.get("step") is not None:
            parts.append(f"{progress['phase']} step {progress['step']}")
        if progress.get("message"):
            parts.append(str(progress["message"]))
        self._line(f"  {label}: {' · '.join(parts)}")

    def _hear(self, event: GangEvent) -> None:
        if event.kind in ("ship", "provision", "lost", "back", "cancel"):
            node = f"{event.node}: " if event.node else ""
            self._line(f"  {node}{event.message}")

    def _begin(self, case: ComparedCase, number: int, of: int, side: Side) -> None:
        self._now = (case, number, f"{case.case_id} round {of} {side.upper()}")

    def _end(self, ended: Ended) -> None:
        half, rounds = ended.half, self._plan.rounds
        said = f"{figure(half.throughput)} {ended.case.unit}/s"
        if half.status != "ok":
            reason = (half.reason or "").split("\n")[0]
            said = f"{half.status}, the round is dropped: {reason}"
        label = f"round {half.round} of {rounds}, {half.side.upper()}"
        self._line(f"{ended.case.case_id}: {label}: {said}")

    def _line(self, text: str) -> None:
        self._said_s = time.monotonic()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def show(console: Console, document: Document, *, verbose: bool) -> None:
    """Print the answer as a table and sentences.

    Args:
        console: where to.
        document: the answer, see `pipeline.answers.answer`.
        verbose: with the figures of every round.
    """
    table = Table()
    for name in ("case", "B / A", "interval", "n", "p", "order", "verdict"):
        table.add_column(name, overflow="fold")
    for row in document["cases"]:
        verdict = row["verdict"]
        colour = _COLOURS[verdict]
        table.add_row(
            row["case_id"],
            *_cells(row),
            " ".join(row["order"]) or "-",
            f"[{colour}]{verdict}[/{colour}]",
        )
    if document["combined"]:
        both = document["combined"]
        table.add_row("all cases, mean", *_cells(both), "", both["verdict"])
    console.print(table)
    for line in _lines(document):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if verbose:
        for row in document["cases"]:
            console.print(_rounds(row))


def _cells(row: Document) -> tuple[str, str, str, str]:
    interval = "-" if row["low"] is None else f"{row['low']:.4f} to {row['high']:.4f}"
    return (
        "-" if row["ratio"] is None else f"{row['ratio']:.4f}",
        interval,
        str(row["n"]),
        "-" if row["p_value"] is None else f"{row['p_value']:.3g}",
    )


def _rounds(row: Document) -> Table:
    table = Table(title=row["case_id"], title_justify="left")
    for name in ("round", "order", f"A {row['unit']}/s", f"B {row['unit']}/s", "B / A"):
        table.add_column(name)
    for each in row["rounds"]:
        table.add_row(
            str(each["round"]),
            each["order"],
            figure(each["a"]),
            figure(each["b"]),
            f"{each['ratio']:.4f}",
        )
    return table


def _lines(document: Document) -> list[str]:
    """The answer in sentences."""
    lines = []
    for row in document["cases"]:
        lines.append(f"{row['case_id']}: {row['verdict']}. {row['sentence']}.")
        if row["stopped"]:
            lines.append(f"  {row['n']} of {document['rounds']} rounds: {row['stopped']}")
        elif row["dropped"]:
            lines.append(f"  {len(row['dropped'])} rounds were dropped and measured again")
    if document["not_combined"]:
        lines.append(f"No line for all cases together: {document['not_combined']}.")
    level = document["cases"][0]["level"]
    lines.append(
        f"{document['verdict']}: B {document['b']['build_id']} beside A "
        f"{document['a']['build_id']} on {document['cluster']}; smallest effect "
        f"{percent(document['min_effect'])}, intervals of {percent(level)}"
    )
    if document["shared"]:
        lines.append("The cluster's nodes share hardware with each other or with neighbours.")
    lines.append(f"id {document['id']}, seed {document['seed']}")
    return lines


def summary(document: Document) -> tuple[str, str]:
    """Title and plain text of a message."""
    title = (
        f"Nightbench ab on {document['cluster']}: {document['b']['build_id']} is "
        f"{document['verdict']} beside {document['a']['build_id']}"
    )
    rows = []
    for row in document["cases"]:
        ratio, interval, n, _ = _cells(row)
        rows.append(f"- {row['case_id']}: {row['verdict']}, B / A {ratio} ({interval}), n {n}")
    return title, "\n".join([*rows, "", *_lines(document)])
