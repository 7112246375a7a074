"""Sentences of reasons and evidence for people: command line, pages, messages.

No program parses them.
"""

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from nightbench.core.model import Reason, ReasonCode
from nightbench.core.model.alerts import CauseEvidence, CauseKind
from nightbench.core.model.reasons import EXPLAINED_BY_THE_NEXT

KEPT_DAYS = 90
"""Days for which the DAG nightbench_upkeep keeps the spool and the steps of ranks by default."""

STACK = ": stack]"
"""Ends the line above a stack, which names node and process."""

CAUSE_LABELS = {
    CauseKind.THERMAL: "heat or clocks",
    CauseKind.DRIVER: "driver, firmware or hardware",
    CauseKind.NEIGHBOUR: "other processes on the node",
    CauseKind.NODE: "a slow node",
    CauseKind.NETWORK: "the network",
    CauseKind.FRAMEWORK_VERSION: "the framework's version",
    CauseKind.BENCHMARK_CODE: "the benchmarks' code",
    CauseKind.ENVIRONMENT: "environment variables",
}


def evidence_sentence(evidence: CauseEvidence) -> str:
    """Return one observation as a sentence with its full stop."""
    rival = f"{CAUSE_LABELS[evidence.rival]}: " if evidence.rival else ""
    against = "against this cause: " if evidence.is_against else ""
    text = f"{rival}{against}{evidence.text}."
    return f"{text[0].upper()}{text[1:]}"


def sentence(reason: Reason) -> str:
    """One reason as a sentence without its full stop, the node in front."""
    text = _without_node(reason)
    return f"{reason.node}: {text}" if reason.node else text


def _without_node(reason: Reason) -> str:
    return reason.code.words.format(
        subject=reason.subject or "?", observed=reason.observed or "?", expected=reason.expected
    )


def sentences(reasons: Iterable[Reason]) -> str:
    """All reasons in one line, in their order; empty if there is none.

    A node is named once before what explains it.
    """
    text, named = "", None
    found = list(dict.fromkeys(reasons))
    for reason, following in zip_longest(found, found[1:]):
        text += _without_node(reason) if reason.node == named else sentence(reason)
        explained = reason.code in EXPLAINED_BY_THE_NEXT or (
            following is not None and following.code is ReasonCode.EXCEPTION
        )
        text += ": " if explained else "; "
        named = (reason.node or named) if explained else None
    return text.removesuffix("; ").removesuffix(": ")


def retention_text(param: str) -> str:
    """Return how long something is kept for which a parameter of the maintenance DAG says."""
    return f"kept for {KEPT_DAYS} days by default ({param} of the DAG nightbench_upkeep)"


def percent(value: float | None, digits: int = 1, *, signed: bool = False) -> str:
    """Return a fraction as a percentage: `1.5 %`, or `+1.5 %` if it is `signed`."""
    if value is None:
        return "-"
    return f"{value * 100:{'+' if signed else ''}.{digits}f} %"


_RELATIONS = {"faster": "faster than", "slower": "slower than", "same": "as fast as"}


def compared(b: str, verdict: str, a: str) -> str:
    """Return the verdict of a comparison as a sentence without its full stop."""
    return f"{b} is {_RELATIONS.get(verdict, f'{verdict} compared with')} {a}"


def unplanned_sentences(rows: Iterable[Mapping[str, Any]]) -> dict[int, str]:
    """Return a sentence for each live alert that no night can end, from `unmeasured_alerts`."""
    return {
        row["alert_id"]: f"Suite {row['suite']} has not planned its case since "
        f"{row['planned_at']:%Y-%m-%d}; nights without it: {row['nights']}. "
        "Put the case back in the suite, or resolve the alert."
        for row in rows
    }
