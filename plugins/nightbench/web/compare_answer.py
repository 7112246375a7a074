"""The result of a comparison as a comment on a change, as JUnit XML and as one word of a status.

The functions are pure. Each one gets a row of `marts.fct_experiment` with the fields of its
request; `result` is the document that `nightbench compare --json` prints. The Markdown suits GitHub
and GitLab; text of users is escaped. The answers may be public, so they name no nodes, folders or
people; `why` and the page in Airflow do.
"""

import math
import posixpath
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from nightbench.config.compare_builds import MERGE_BASE
from nightbench.core.budget import clock, duration
from nightbench.core.losses import trained_differently
from nightbench.core.model import TrainingKind
from nightbench.core.model.experiments import LIVE, ExperimentKind
from nightbench.core.sentences import compared

Row = Mapping[str, Any]

MARK = "<!-- nightbench-compare -->"
"""First line of every comment: a program that updates its comment finds it by this."""

LONGEST = 60_000
"""Characters of a comment; GitHub takes 65,536."""

PROFILED = 3
"""Operators of a case in a comment."""

SAID = 160
"""Characters of a reason in a headline."""

CONCLUSIONS = {
    "held": "pending",
    "queued": "pending",
    "running": "pending",
    "failed": "error",
    "refused": "neutral",
    "cancelled": "neutral",
}
VERDICTS = {"faster": "success", "same": "success", "slower": "failure", "inconclusive": "neutral"}
_XML_REFUSES = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def conclusion(row: Row) -> str:
    """Return pending, success, failure, neutral or error: what a status of the commit says.

    A verdict is pending while a profile is requested that has neither ended nor was cancelled.
    """
    if row["state"] == "done":
        if row["profile"] in LIVE:
            return "pending"
        # If B trains differently from A, speeds cannot be compared.
        is_changed = trained_differently(row["result"])
        return "failure" if is_changed else VERDICTS[row["result"]["verdict"]]
    return CONCLUSIONS[row["state"]]


def title(row: Row) -> str:
    """Return what an experiment compares."""
    kind, asked = row["kind"], row["request"]
    if kind == ExperimentKind.COMPARE:
        return f"{_build(row, 'a')} and {_build(row, 'b')}"
    if kind == ExperimentKind.BISECT:
        line = (row["result"] or asked).get("line")
        return f"{line or asked.get('case_id')}: {asked.get('good')} to {asked.get('bad')}"
    if kind == ExperimentKind.PROFILE:
        return f"profile of {asked['of']}"
    return str(asked.get("case_id") or row["name"])


def headline(
    row: Row,
    starts_at: datetime | None = None,
    waits_for: str = "",
    ends_at: datetime | None = None,
) -> str:
    """Return one sentence without markup: the state of an experiment, or its result."""
    state, why = row["state"], row["why"]
    result = row["result"] or {}
    if state == "done" and row["kind"] != ExperimentKind.COMPARE:
        return str(result.get("sentence") or why.partition("\n")[0] or "Measured")
    if state == "done":
        more = {"queued": "; the profile is in the queue", "running": "; now with the profiler"}
        # Only the first line: an error may have many lines.
        causes = [why.partition("\n")[0]]
        if row["profile"] == "failed":
            causes.append("no profile: " + row["profile_why"].partition("\n")[0])
        elif row["profile"] == "done":
            causes.append(row["profile_why"].partition("\n")[0])
        text = "; ".join(filter(None, causes))
        about = compared("B", result["verdict"], "A") + more.get(row["profile"], "")
        if changed := trained_differently(result):
            cases = f"{len(changed)} of {len(result['cases'])} cases"
            about = f"Training changed in {cases}, so their speeds cannot be compared; {about}"
        return about + (f" ({text})" if text else "")
    if state == "held":
        return "The build comes from a fork, so the request waits until an operator allows it"
    if state == "queued":
        takes = f", takes about {duration(row['estimate_s'])}" if row["estimate_s"] else ""
        if waits_for:
            return f"In the queue; waiting because {waits_for}"
        if starts_at is not None:
            return f"In the queue; expected to begin about {clock(starts_at)}{takes}"
        return f"In the queue{takes}"
    if state == "running":
        if row["cancelled_by"]:
            return "Cancelled; stops when the current launch ends"
        since = f" since {clock(row['started_at'])}" if row["started_at"] else ""
        return f"Being measured{since}" + (f", until about {clock(ends_at)}" if ends_at else "")
    if state == "failed":
        # Everybody may read the first of several lines.
        first, more, _ = why.partition("\n")
        return "The measurement failed" + (f": {_short(first)}" if more else "")
    if state == "refused":
        return "An operator refused the request" + (f": {_short(why)}" if why else "")
    if row["replaced_by"] is not None:
        return f"Replaced by request {row['replaced_by']} for a newer commit"
    return "Cancelled" + (f": {_short(why)}" if why else "")


def _short(text: str) -> str:
    """Return a text on one line of at most `SAID` characters, cut within a word if need be."""
    line = " ".join(text.split())
    return line if len(line) <= SAID else f"{line[: SAID - 2]} …"


def detectable_drop(case: Row, min_effect: float) -> float | None:
    """Return the smallest drop that an interval of this width would have reported as `slower`.

    None if there are too few rounds for an interval.
    """
    if case["low"] is None or case["high"] is None:
        return None
    half = (math.log(case["high"]) - math.log(case["low"])) / 2
    return 1 - (1 - min_effect) * math.exp(-half)


def comment(
    row: Row,
    *,
    link: str = "",
    starts_at: datetime | None = None,
    waits_for: str = "",
    ends_at: datetime | None = None,
) -> str:
    """Return a comparison as Markdown that fits one comment on a change."""
    title = f"### Nightbench: {_plain(headline(row, starts_at, waits_for, ends_at))}"
    facts = [
        f"A `{_build(row, 'a')}`, B `{_build(row, 'b')}`; suite {_plain(row['suite'])} on "
        f"{_plain(row['cluster'])}, {row['rounds']} rounds, smallest effect "
        f"{row['min_effect']:.2%}.",
    ]
    if row["change_commit"]:
        facts.append(f"Commit `{_code(row['change_commit'])}`.")
    parts = [MARK, title, "", " ".join(facts)]
    document = row["result"]
    if row["state"] == "failed":
        parts += ["", "Users with access to Nightbench find the full message there."]
    if document is not None:
        parts += ["", *_table(document), "", *_notes(document), *_profile(row)]
    elif row["state"] in ("held", "queued", "running"):
        parts += ["", f"{len(row['cases'])} cases: {_plain(', '.join(row['cases'][:20]))}"]
    request = f"Request {row['experiment_id']}"
    parts += ["", f"[{request}]({link})" if link else request]
    return _cut("\n".join(parts) + "\n")


def _table(document: Row) -> list[str]:
    lines = [
        "| case | verdict | training | B / A | interval | rounds | detectable drop |",
        "|---|---|---|---|---|---|---|",
    ]
    # The worst first: a long table is cut at its end.
    order = ("slower", "inconclusive", "faster", "same")
    for case in sorted(document["cases"], key=lambda each: order.index(each["verdict"])):
        fall = detectable_drop(case, document["min_effect"])
        lines.append(
            f"| {_plain(case['case_id'])} | **{case['verdict']}** | {_training(case)} | "
            f"{_ratio(case)} | {_interval(case)} | {case['n']} | "
            f"{'-' if fall is None else f'{fall:.1%}'} |"
        )
    if both := document["combined"]:
        lines.append(
            f"| all cases, mean | {both['verdict']} | | {_ratio(both)} | {_interval(both)} | "
            f"{both['n']} | |"
        )
    return lines


def _notes(document: Row) -> list[str]:
    notes = []
    for case in document["cases"]:
        name, training = _plain(case["case_id"]), case.get("training")
        if training and training["kind"] != TrainingKind.SAME:
            notes.append(f"- {name}: {_plain(training['sentence'])}.")
        if case["verdict"] == "inconclusive":
            notes.append(f"- {name}: {_plain(case['sentence'])}.")
        if case["stopped"]:
            notes.append(f"- {name}: stopped after {case['n']} of {document['rounds']} rounds.")
        notes += [
            f"- {name}: {number} launches of {arm} dropped: {why}"
            for (arm, why), number in _dropped_launches(case).items()
        ]
    if document["not_combined"]:
        notes.append(f"- The table has no mean of all cases: {_plain(document['not_combined'])}.")
    if document["shared"]:
        notes.append("- The cluster's nodes share hardware with each other or with neighbours.")
    level = document["cases"][0]["level"]
    notes.append(f"- Intervals of {level:.2%} confidence; B / A: throughput of B over A.")
    return notes


def profile_of(row: Row) -> Row | None:
    """Return the profile of a comparison: its id, and the operators that differ most by case."""
    found: Row | None = (row["result"] or {}).get("profile")
    return found


def _profile(row: Row) -> list[str]:
    rows = [
        f"| {_plain(case['case_id'])} | {_plain(_short(each['name']))} | "
        f"{1e3 * each['a_s']:.3f} | {1e3 * each['b_s']:.3f} | {1e3 * each['difference_s']:+.3f} |"
        for case in (profile_of(row) or {"cases": ()})["cases"]
        for each in case["operators"][:PROFILED]
    ]
    if not rows:
        return []
    head = "Operators whose time in a step differs most, under a profiler that slows both builds:"
    return [
        "",
        head,
        "",
        "| case | operator | A, ms | B, ms | B - A |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _dropped_launches(case: Row) -> Counter[tuple[str, str]]:
    return Counter(
        (
            launch["arm"].upper(),
            ", ".join(dict.fromkeys(each["code"].replace("_", " ") for each in launch["reasons"]))
            or launch["status"],
        )
        for launch in case["dropped"]
    )


def _build(row: Row, arm: str) -> str:
    """Return a build without its folder, with the commit in place of the merge base."""
    line, _, value = row[arm].partition("=")
    if value.startswith(("/", "~")):
        value = posixpath.basename(value) if value.endswith(".whl") else "a prefix on the nodes"
    of = ((row["result"] or {}).get("commits") or {}).get(arm)
    if of and value.endswith(f"@{MERGE_BASE}"):
        value = value.removesuffix(MERGE_BASE) + of["commit"]
    return _code(f"{line}={value}")


def _training(case: Row) -> str:
    """Return whether B trains as A, and from which step on it does not."""
    found = case.get("training") or {"kind": "-", "step": None}
    if found["kind"] == TrainingKind.CHANGED:
        return "**changed**" + (f" from step {found['step']}" if found["step"] else "")
    return str(found["kind"]).replace("_", " ")


def _ratio(case: Row) -> str:
    return "-" if case["ratio"] is None else f"{case['ratio']:.4f}"


def _interval(case: Row) -> str:
    return "-" if case["low"] is None else f"{case['low']:.4f} to {case['high']:.4f}"


def _plain(text: str) -> str:
    """Return a text as one line of Markdown that shows it unchanged and mentions nobody."""
    line = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", line).replace("@", "@\u200b")


def _code(text: str) -> str:
    return " ".join(text.split()).replace("`", "'").replace("|", "\\|")


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    kept = text[:LONGEST].rpartition("\n")[0]
    return f"{kept}\n\nThe rest is left out, because a comment can contain no more text.\n"


# --- JUnit --------------------------------------------------------------------------------


def junit(row: Row) -> str:
    """Return a comparison as JUnit XML: a test for each case.

    It failed if B is slower or trains differently.

    A case without a clear result is skipped; a comparison that could not be measured is an error.
    """
    cases: Sequence[Row] = row["result"]["cases"] if row["result"] else ()
    names = [case["case_id"] for case in cases] or list(row["cases"])
    changed = trained_differently(row["result"]) if row["result"] else ()
    suite = ElementTree.Element("testsuite", name=f"nightbench {row['suite']} on {row['cluster']}")
    counts = Counter({"tests": len(names), "failures": 0, "errors": 0, "skipped": 0})
    for at, name in enumerate(names):
        test = ElementTree.SubElement(suite, "testcase", classname=row["suite"], name=name)
        case = cases[at] if cases else None
        if case is not None and name in changed:
            counts["failures"] += 1
            _add(test, "failure", case["training"]["sentence"])
        elif case is not None and case["verdict"] in ("faster", "same"):
            ElementTree.SubElement(test, "system-out").text = _xml(case["sentence"])
        elif case is not None and case["verdict"] == "slower":
            counts["failures"] += 1
            _add(test, "failure", case["sentence"])
        elif case is None and row["state"] == "failed":
            counts["errors"] += 1
            _add(test, "error", headline(row))
        else:
            counts["skipped"] += 1
            _add(test, "skipped", case["sentence"] if case else headline(row))
    for name, number in counts.items():
        suite.set(name, str(number))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _add(test: ElementTree.Element, what: str, message: str) -> None:
    ElementTree.SubElement(test, what, message=_xml(message))


def _xml(text: str) -> str:
    return _XML_REFUSES.sub("?", text)
