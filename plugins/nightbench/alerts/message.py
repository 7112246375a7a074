"""What an alert says: what, how much, since when, from which baseline, and where to look. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nightbench.model import HistoryPoint, Run, Verdict, VerdictKind


@dataclass(frozen=True)
class Message:
    """A title of one line and a body of plain text, which is also Markdown."""

    title: str
    body: str


@dataclass(frozen=True)
class News:
    """A verdict that somebody must see, with what its sentence does not hold."""

    verdict: Verdict
    unit: str = ""
    since: datetime | None = None
    """First night of it; the run's own where None."""
    last_good: HistoryPoint | None = None


def message(
    run: Run,
    owner: str,
    news: Sequence[News],
    resolved: Sequence[str] = (),
    link: str | None = None,
) -> Message:
    """One message for all news of a run.

    Args:
        run: the run that brought the news.
        owner: who the suite belongs to.
        news: new alerts, in the order of the plan; never empty unless `resolved` is not.
        resolved: case_ids whose alerts ended with this run.
        link: where the run's results are.

    Raises:
        ValueError: there is nothing to say.
    """
    if not news and not resolved:
        raise ValueError("there is neither news nor a resolved alert")
    parts = [_item(run, item) for item in news]
    if resolved:
        parts.append("\n".join(["Resolved:", *(f"- {case_id}" for case_id in resolved)]))
    where = [f"Run: {run.run_id} ({run.run_kind}), suite {run.suite}, owner {owner}"]
    if link:
        where.append(f"Results: {link}")
    return Message(_title(run, news, resolved), "\n\n".join([*parts, "\n".join(where)]))


def _title(run: Run, news: Sequence[News], resolved: Sequence[str]) -> str:
    if len(news) == 1:
        verdict = news[0].verdict
        words = f"{verdict.case_id} {_headline(verdict)}"
    elif news:
        counts = Counter(item.verdict.kind for item in news)
        words = ", ".join(f"{counts[kind]} {kind}" for kind in VerdictKind if counts[kind])
    else:
        words = f"{len(resolved)} resolved"
    return f"Nightbench {run.suite} on {run.cluster}: {words}"


def _headline(verdict: Verdict) -> str:
    if verdict.change is None:
        return str(verdict.kind)
    return f"{verdict.kind} by {abs(verdict.change):.1%}"


def _item(run: Run, news: News) -> str:
    verdict, unit = news.verdict, f" {news.unit}/s" if news.unit else ""
    lines = [f"{verdict.case_id} on {verdict.cluster}: {_headline(verdict)}", verdict.sentence]
    if verdict.value is not None and verdict.baseline is not None:
        lines.append(f"- tonight: {verdict.value:.5g}{unit}")
        lines.append(f"- baseline: {verdict.baseline:.5g}{unit}")
    lines.append(f"- since: {(news.since or run.started_at):%Y-%m-%d %H:%M} UTC")
    if news.last_good is not None:
        good = news.last_good
        name = f", run {good.run_id}" if good.run_id else ""
        lines.append(f"- last good: {good.value:.5g}{unit} on {good.at:%Y-%m-%d}{name}")
    return "\n".join(lines)
