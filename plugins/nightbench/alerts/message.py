"""Composes the message of alerts: what, how much, since when, cause, and links. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from nightbench.core.model import HistoryPoint, Run, Verdict, VerdictKind, info_of
from nightbench.core.model.alerts import Cause, Confirmation
from nightbench.core.sentences import evidence_sentence

NOISE, DRIFTS, GRADES = "Noise", "Drifts", "The detector became worse"
AGAIN = "Measured again"
NOTES = {
    AGAIN: "suspects were measured again",
    NOISE: "{} series became noisy or steady",
    DRIFTS: "{} series drifted",
    GRADES: "its detector became worse",
}
"""Headings of notes in addition to alerts -> the title of a message that has nothing above them."""

MOST_CHANGES = 12
"""Differences between two runs that are listed; more are counted."""


@dataclass(frozen=True)
class Message:
    """A title of one line and a body of plain text, which is also Markdown."""

    title: str
    body: str


@dataclass(frozen=True)
class Links:
    """Makes links to pages of Airflow's UI."""

    base_url: str
    """Base URL of Airflow's API server, without a slash at its end."""

    def results(self, run: Run) -> str:
        """The results of a run."""
        return f"{self.base_url}/plugin/benchmarks/runs/{quote(run.run_id, safe='')}"

    def alert(self, alert_id: int) -> str:
        """An alert with its history."""
        return f"{self.base_url}/plugin/benchmarks/alerts/{alert_id}"

    def dag_run(self, run: Run) -> str | None:
        """The DAG run that measured; None for a run that no DAG made."""
        if not (run.dag_id and run.dag_run_id):
            return None
        dag_id, dag_run_id = (quote(name, safe="") for name in (run.dag_id, run.dag_run_id))
        return f"{self.base_url}/dags/{dag_id}/runs/{dag_run_id}"


@dataclass(frozen=True)
class AlertItem:
    """A new alert in a message: its verdict and further facts."""

    verdict: Verdict
    unit: str = ""
    alert_id: int | None = None
    first_bad: HistoryPoint | None = None
    last_good: HistoryPoint | None = None
    changes: tuple[str, ...] | None = None
    """Differences between these two runs, a line each; None if one is unknown."""
    cause: Cause | None = None
    confirmation: Confirmation | None = None
    is_awaited: bool = False
    """It is being measured again right now."""
    error: str | None = None
    """End of the traceback of the case's last repeat that failed."""
    grown_from: float | None = None
    """Change that an earlier message said; None if there was none, or it has not grown since."""
    reproduce: str | None = None
    """The command that measures it again."""
    untried: str | None = None
    """Why its configuration is untried on such devices; None if it was tried."""

    shared: str | None = None
    """Sentence of the shared change that it represents; None for a single series."""
    members: Mapping[str, float] = field(default_factory=dict)
    """case_id of each series that changed together with it -> its own relative change."""

    @property
    def group(self) -> str:
        """Key of alerts with the same cause; empty without others."""
        return self.cause.group if self.cause else ""


@dataclass(frozen=True)
class EndedAlert:
    """A resolved alert in a message."""

    case_id: str
    sentence: str = ""
    """The verdict's sentence of the run that ended it."""
    alert_id: int | None = None


def message(
    run: Run,
    owner: str,
    news: Sequence[AlertItem],
    resolved: Sequence[EndedAlert] = (),
    links: Links | None = None,
    *,
    is_urgent: bool = False,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Message:
    """Return one message about all news.

    Args:
        run: the latest run with news.
        owner: of the alerts.
        news: new alerts, the worst first; those of one cause become one item.
        resolved: alerts that ended.
        links: makes links; none without it.
        is_urgent: it is sent at once, apart from the night's message.
        notes: a heading of `NOTES` -> sentences below it.

    Raises:
        ValueError: there are no news.
    """
    noted = {heading: lines for heading, lines in (notes or {}).items() if lines}
    if not (news or resolved or noted):
        raise ValueError("there is neither news nor a resolved alert, and nothing to note")
    parts = [_item(run, items, links) for items in grouped(news)]
    if resolved:
        parts.append("\n".join(["Resolved:", *(_ended(item, links) for item in resolved)]))
    for heading, lines in noted.items():
        parts.append("\n".join([f"{heading}:", *(f"- {line}" for line in lines)]))
    where = [f"Run: {run.run_id} ({run.run_kind}), suite {run.suite}, owner {owner}"]
    if links:
        where.append(f"Results: {links.results(run)}")
        dag_run = links.dag_run(run)
        where += [f"Airflow: {dag_run}"] if dag_run else []
    title = _title(run, news, resolved, noted, is_urgent)
    return Message(title, "\n\n".join([*parts, "\n".join(where)]))


def grouped(news: Sequence[AlertItem]) -> list[list[AlertItem]]:
    """Return items grouped by cause, in their order."""
    groups: dict[str, list[AlertItem]] = {}
    for number, item in enumerate(news):
        groups.setdefault(item.group or f"\0{number}", []).append(item)
    return list(groups.values())


def _title(
    run: Run,
    news: Sequence[AlertItem],
    resolved: Sequence[EndedAlert],
    noted: Mapping[str, Sequence[str]],
    is_urgent: bool,
) -> str:
    if len(news) == 1:
        words = news[0].shared or f"{news[0].verdict.case_id} {_headline(news[0])}"
    elif news:
        counts = Counter(item.verdict.kind for item in news)
        words = ", ".join(f"{counts[kind]} {kind}" for kind in VerdictKind if counts[kind])
        cause = news[0].cause
        if cause and cause.group and all(item.group == cause.group for item in news):
            words += f", one cause: {_words(cause.kind)}"
    elif len(resolved) == 1:
        words = f"{resolved[0].case_id} resolved"
    elif resolved:
        words = f"{len(resolved)} resolved"
    else:
        heading = next(heading for heading in NOTES if heading in noted)
        words = NOTES[heading].format(len(noted[heading]))
    urgent = ", urgent" if is_urgent else ""
    return f"Nightbench {run.suite} on {run.cluster}{urgent}: {words}"


def _headline(item: AlertItem) -> str:
    verdict = item.verdict
    words = _words(verdict.kind)
    if verdict.metric not in ("throughput", "training"):
        words = f"{_words(verdict.metric)} {words}"
    # An alert that became the alert of many series may not have grown itself.
    if (
        verdict.change is not None
        and item.grown_from is not None
        and abs(verdict.change) > abs(item.grown_from)
    ):
        words += f": the change grew from {abs(item.grown_from):.1%} to {abs(verdict.change):.1%}"
    elif verdict.change is not None:
        words += f" by {abs(verdict.change):.1%}"
    if item.confirmation is not None:
        words += f", {_words(item.confirmation.outcome)}"
    return words


def _item(run: Run, items: Sequence[AlertItem], links: Links | None) -> str:
    worst = items[0]
    verdict = worst.verdict
    if len(items) == 1:
        lines = [f"{verdict.case_id} on {verdict.cluster}: {_headline(worst)}", verdict.sentence]
        if worst.shared:
            lines = [worst.shared, f"- shown most clearly by {lines[0]}"]
        lines += _figures(worst)
    else:
        counts = Counter(item.verdict.kind for item in items)
        kinds = ", ".join(f"{counts[kind]} {kind}" for kind in VerdictKind if counts[kind])
        lines = [f"{kinds} on {verdict.cluster}, one cause"]
    lines += _cause(worst.cause)
    if len(items) > 1:
        lines.append(f"- most affected case: {verdict.case_id}")
    if worst.untried:
        lines.append(f"- untried configuration, never run on this kind of device: {worst.untried}")
    lines += _error(worst)
    lines += _when(run, worst)
    lines += _changes(worst)
    if len(items) == 1:
        lines += _confirmation(worst)
    if worst.reproduce:
        lines.append(f"- reproduce: {worst.reproduce}")
    if (alert := worst.alert_id) is not None:
        lines.append(f"- alert: {links.alert(alert) if links else alert}")
    for item in items:
        if item.shared:
            members = sorted(item.members.items(), key=lambda member: member[1])
            lines += [f"- {item.shared}:", *(f"  - {name}: {by:+.1%}" for name, by in members)]
    if len(items) > 1:
        lines += ["- all cases:", *(f"  - {_row(item)}" for item in items)]
    return "\n".join(lines)


def _ended(item: EndedAlert, links: Links | None) -> str:
    said = f": {item.sentence}" if item.sentence else ""
    alert = f"\n  - alert: {links.alert(item.alert_id)}" if links and item.alert_id else ""
    return f"- {item.case_id}{said}{alert}"


def _figures(item: AlertItem) -> list[str]:
    verdict = item.verdict
    lines = []
    if verdict.value is not None and verdict.baseline is not None:
        lines.append(f"- tonight: {_value(item, verdict.value)}")
        lines.append(f"- baseline: {_value(item, verdict.baseline)}")
    # Two lower nights show a growth before the level of all nights includes them.
    is_followed = item.grown_from is None or (verdict.gain or 0.0) >= (verdict.lowest_gain or 0.0)
    if verdict.low is not None and verdict.high is not None and is_followed:
        lines.append(f"- level change: {_level(verdict)}")
    return lines


def _error(item: AlertItem) -> list[str]:
    if item.error is None:
        return []
    # Indented by four spaces: Markdown shows the text unchanged.
    return ["", *(f"    {line}" for line in item.error.splitlines()), ""]


def _when(run: Run, item: AlertItem) -> list[str]:
    since = item.verdict.since or (item.first_bad.at if item.first_bad else run.started_at)
    lines = [f"- since: {since:%Y-%m-%d %H:%M} UTC"]
    for name, point in (("last good", item.last_good), ("first bad", item.first_bad)):
        if point is not None:
            of_run = f", run {point.run_id}" if point.run_id else ""
            lines.append(f"- {name}: {_value(item, point.value)} on {point.at:%Y-%m-%d}{of_run}")
    return lines


def _changes(item: AlertItem) -> list[str]:
    if item.changes is None:
        return []
    if not item.changes:
        return ["- changed between these runs: nothing that is recorded"]
    shown = item.changes[:MOST_CHANGES]
    more = len(item.changes) - len(shown)
    lines = ["- changed between these runs:", *(f"  - {change}" for change in shown)]
    return [*lines, f"  - and {more} more"] if more else lines


def _cause(cause: Cause | None) -> list[str]:
    if cause is None:
        return []
    lines = [f"- cause: {_words(cause.kind)}: {cause.sentence}"]
    return lines + [
        f"  - {line}" for line in map(evidence_sentence, cause.evidence) if line != cause.sentence
    ]


def _confirmation(item: AlertItem) -> list[str]:
    found = item.confirmation
    if found is None:
        return ["- status: the case is being measured again"] if item.is_awaited else []
    words = f"- {_words(found.outcome)}: {found.sentence}"
    return [words + (f" ({_ratio(found)})" if found.ratio is not None else "")]


def _ratio(found: Confirmation) -> str:
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f", 95% interval {found.low:.4f} to {found.high:.4f}"
    return f"ratio {found.ratio:.4f}{interval}, n = {found.rounds}"


def _row(item: AlertItem) -> str:
    verdict = item.verdict
    words = f"{verdict.case_id}: {_headline(item)}"
    if verdict.low is not None and verdict.high is not None:
        words += f", level change {_level(verdict)}"
    if verdict.value is not None and verdict.baseline is not None:
        words += f", {_value(item, verdict.value)}, baseline {_value(item, verdict.baseline)}"
    return f"{words}, untried configuration" if item.untried else words


def _level(verdict: Verdict) -> str:
    """Return the level change with its interval; the change of the night may be outside it."""
    interval = f"90% interval {verdict.low:+.1%} to {verdict.high:+.1%}"
    return f"{verdict.level_change:+.1%} ({interval})"


def _plain(item: AlertItem, value: float) -> str:
    return f"{value / info_of(item.verdict.metric).divisor:.5g}"


def _value(item: AlertItem, value: float) -> str:
    unit = info_of(item.verdict.metric).unit_of(item.unit)
    return f"{_plain(item, value)} {unit}".rstrip()


def _words(name: str) -> str:
    return str(name).replace("_", " ")
