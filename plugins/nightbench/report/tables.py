"""Shows rows as a table for terminals and as Markdown."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from nightbench.core.model import ReasonCode, reasons_from_json
from nightbench.core.printable import some_of
from nightbench.core.sentences import percent, sentence, sentences

Row = Mapping[str, Any]

_RATIOS = ("n", "spread", "speed-up", "efficiency", "change", "detectable")
_FIGURES = ("throughput", *_RATIOS)
COLUMNS = ("case", "throughput", "unit", *_RATIOS, "verdict")
_ENDLESS = 1000
_COLOURS = {
    "ok": "green",
    "watched": "yellow",
    "improved": "green",
    "regressed": "red",
    "failed": "red",
    "missing": "red",
    "quarantined": "yellow",
    "unavailable": "yellow",
    "insufficient_data": "cyan",
    "left_out": "cyan",
}


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row as text: values to four digits, a dash if there is none."""
    return (
        str(row["case_id"]),
        figure(row["throughput"]),
        f"{row['unit']}/s" if row["unit"] else "-",
        str(row["n"]),
        percent(row["spread"]),
        "-" if row["speedup"] is None else f"{row['speedup']:.2f}",
        percent(row["efficiency"], digits=0),
        change(row),
        percent(row["smallest_slowdown"]),
        ", ".join((verdict(row), *live(row))),
    )


def verdict(row: Row) -> str:
    """Return the result of a row in one word."""
    if row["status"] != "ok":
        # Cancelled is more specific than its verdict, which is failed.
        return str(row["status"])
    if row["quarantined"]:
        return "quarantined"
    of = "" if row["metric"] in (None, "throughput") else f" ({row['metric']})"
    return str(row["verdict"] or "-") + of


def change(row: Row) -> str:
    """Return the change against the baseline, and that of the level with its 90 % interval."""
    own, level = row["change"], row["level_change"]
    if own is None:
        return "-"
    words = percent(own, signed=True)
    if row["change_low"] is None or row["change_high"] is None:
        return words
    low, high = (percent(row[name], signed=True) for name in ("change_low", "change_high"))
    if level is None or level == own:
        return f"{words} ({low} to {high})"
    return f"{words} (level {percent(level, signed=True)}, {low} to {high})"


def live(row: Row) -> list[str]:
    """Return marks to print after a verdict: private build, untried configuration, alert, drift."""
    marks = {"private build": row["private_build"], "untried configuration": row["untried"]}
    said = [mark for mark, holds in marks.items() if holds]
    if row["alert_id"] is not None:
        change = row["alert_change"]
        size = "" if change is None else f" {percent(change, signed=True)}"
        said.append(f"alert {row['alert_id']} {row['alert_verdict']}{size}")
    if row["drift"] is not None:
        said.append(f"drifts {percent(row['drift'], signed=True)}")
    return said + (["noisy"] if row["noisy"] else [])


def figure(value: float | None) -> str:
    """Return a throughput to four significant digits."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:#.4g}".rstrip(".")


_WITHOUT_RESULT = ("missing", "waiting")
_MOST_ABSENT = 20
"""Cases without a result that a terminal lists."""
_MOST_NAMED = 10
"""Cases that a line names."""


class ResultsTable:
    """The medians for a terminal: a table, or two lines for each case on narrow ones."""

    def __init__(self, rows: Sequence[Row], title: str = "") -> None:
        absent = [row for row in rows if row["status"] in _WITHOUT_RESULT]
        left_out = {row["case_id"] for row in absent[_MOST_ABSENT:]}
        self._rows = [row for row in rows if row["case_id"] not in left_out]
        self._more = len(left_out)
        self._title = title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table, and how many cases without a result it leaves out."""
        table = self._table()
        needed = console.measure(table, options=options.update(width=_ENDLESS)).maximum
        is_wide = needed <= options.max_width
        yield table if is_wide else Text(self._title, style="bold")
        for row in () if is_wide else self._rows:
            case, throughput, n, spread, speedup, efficiency, moved, detectable, word = _short(row)
            figures = f"{throughput}  n {n}  spread {spread}  speed-up {speedup} at {efficiency}"
            if moved != "-":
                figures += f"  change {moved}"
            if detectable != "-":
                figures += f"  detectable {detectable}"
            yield Text(case)
            said = Text("  " if row["throughput"] is None else f"  {figures}  ")
            yield said.append(word, style=_colour(row))
        if self._more:
            yield Text(f"and {self._more:,} more cases without a result", style="dim")

    def _table(self) -> Table:
        table = Table(
            title=self._title or None,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            show_edge=False,
        )
        for name in ("case", *_FIGURES, "verdict"):
            table.add_column(name, justify="right" if name in _FIGURES else "left", no_wrap=True)
        for row in self._rows:
            *words, word = (escape(cell) for cell in _short(row))
            colour = _colour(row)
            table.add_row(*words, f"[{colour}]{word}[/{colour}]" if colour else word)
        return table


def _colour(row: Row) -> str:
    """Return the colour of a row's verdict; green only without alert and drift."""
    if row["alert_id"] is not None or row["drift"] is not None:
        return "red" if verdict(row) == "regressed" else "yellow"
    return _COLOURS.get(verdict(row), "")


def _short(row: Row) -> tuple[str, ...]:
    """Return the cells of a row with the unit beside the figure."""
    case, throughput, unit, *rest = cells(row)
    return (case, throughput if throughput == "-" else f"{throughput} {unit}", *rest)


def markdown_table(rows: Sequence[Row]) -> str:
    """Return the table of medians as Markdown."""
    lines = [
        markdown_row(COLUMNS),
        "|" + "|".join("---:" if name in _FIGURES else "---" for name in COLUMNS) + "|",
        *(markdown_row(cells(row)) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def markdown_row(texts: Iterable[str]) -> str:
    """Return a row of a table in Markdown."""
    words = (text.replace("|", "\\|").replace("\n", " ") for text in texts)
    return "| " + " | ".join(words) + " |"


def verdict_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the evidence for each case's verdict, and why it does not count, without repetition."""
    cases = _cases_by_text((row, line) for row in rows for line in _remarks(row))
    yield from (f"{some_of(named, _MOST_NAMED)}: {line}" for line, named in cases.items())


def errors_once(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the end of each failed case's traceback, equal ones once, with their cases."""
    return _cases_by_text((row, row["error"]) for row in rows if row["error"])


def _cases_by_text(said: Iterable[tuple[Row, str]]) -> dict[str, list[str]]:
    cases: dict[str, list[str]] = {}
    for row, text in said:
        cases.setdefault(text, []).append(str(row["case_id"]))
    return cases


def _remarks(row: Row) -> list[str]:
    said = [row["verdict_sentence"]] if row["verdict_sentence"] else []
    if row["training"] == "changed" and row["training_sentence"] not in (said or [""])[0]:
        said.append(row["training_sentence"])
    reasons = reasons_from_json(row["reasons"])
    if row["status"] != "ok":
        # The reason of the failure; failed checks after it are no new information.
        own = [reason for reason in reasons if reason.code is not ReasonCode.CHECK_FAILED]
        return said or ([sentences(own or reasons[:1]).split("\n")[0]] if reasons else [])
    firsts = [sentence(reason).split("\n")[0] for reason in reasons]
    if row["quarantined"]:
        # The verdict's sentence would only repeat this reason.
        said = []
    said += [f"{verdict(row)}: {first}" for first in firsts]
    return said + ([f"noisy series, which opens no alert: {row['noisy']}"] if row["noisy"] else [])
