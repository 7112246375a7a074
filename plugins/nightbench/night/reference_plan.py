"""Which cases a night measures with a reference build, and their results in the spool.

    <spool>/runs/<run_id>/pairs.json    what was measured, as the ingest loads it

They are measured after all cases, in the time that these leave, the noisiest series first.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import timedelta

from nightbench.core.budget import (
    PREPARE_S,
    CaseHistory,
    NightPlan,
    clock,
    duration,
    guess_repeat_s,
)
from nightbench.core.documents import from_document, to_document
from nightbench.core.model import (
    Catalog,
    Cluster,
    MeasuredPair,
    PlannedPair,
    Reason,
    ReasonCode,
    Suite,
)
from nightbench.core.run_plan import build_of, definition_digest
from nightbench.spool import RunSpool, write_json
from nightbench.spool.documents import of_this_version, read_list


def plan_pairs(
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    night: NightPlan,
    past: Mapping[str, CaseHistory],
) -> tuple[PlannedPair, ...]:
    """Return the cases of a night's plan that are measured with their line's reference build.

    Cases with the most noise between nights come first, and what the window has no time for is left
    out. If the reference is another one than the last time, the one before is measured as well.
    """
    pinned = dataclasses.replace(suite, builds={**suite.builds, **suite.reference})
    cases = {case.case_id: case for case in suite.cases}
    measured = [entry.case_id for entry in night.entries if entry.start is not None]
    wanted = [case_id for case_id in measured if cases[case_id].framework in suite.reference]
    wanted.sort(key=lambda case_id: -(past.get(case_id, CaseHistory()).noise or 0.0))
    found: list[PlannedPair] = []
    end, until = night.end, night.window.end
    for case_id in wanted:
        case = cases[case_id]
        digest = definition_digest(case, catalog.workloads[case.workload], suite.protocol)
        known = past.get(case_id, CaseHistory()).of(digest)
        once = known.repeat_s or guess_repeat_s(suite.protocol, suite.repeat_timeout_s)
        rounds = suite.protocol.repeats
        reference = build_of(case.framework, pinned, cluster, catalog)
        pair = PlannedPair(case_id, reference, rounds, PREPARE_S + 2 * rounds * once)
        both = [pair]
        if known.reference is not None and known.reference.build_id != reference.build_id:
            both.append(dataclasses.replace(pair, reference=known.reference, is_bridge=True))
        takes = timedelta(seconds=sum(each.seconds for each in both))
        left_out = None
        if until is not None and end + takes > until:
            left = (until - end).total_seconds()
            rest = duration(left) if left > 0 else "nothing"
            left_out = Reason(
                ReasonCode.NIGHT_FULL,
                observed=f"about {duration(takes.total_seconds())}",
                expected=f"{rest} until {clock(until)} ({night.window.why})",
            )
        else:
            end += takes
        found += (dataclasses.replace(each, left_out=left_out) for each in both)
    return tuple(found)


def pair_text(pair: PlannedPair) -> str:
    """Return what is measured, for people."""
    bridge = ", the previous reference" if pair.is_bridge else ""
    return f"{pair.case_id} compared with {pair.reference.build_id}{bridge}, {pair.rounds} rounds"


def save_pairs(run: RunSpool, pairs: Sequence[MeasuredPair]) -> None:
    """Keep what was measured so far."""
    write_json(run.folder / "pairs.json", [to_document(pair) for pair in pairs])


def measured_pairs(run: RunSpool) -> tuple[MeasuredPair, ...]:
    """Return a run's measurements with reference builds.

    Raises:
        UserError: this version does not read the file.
    """
    path = run.folder / "pairs.json"
    with of_this_version(path):
        return tuple(from_document(MeasuredPair, each) for each in read_list(path))
