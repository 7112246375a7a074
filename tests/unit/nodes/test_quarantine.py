from datetime import UTC, datetime, timedelta

import pytest

from nightbench.core.model import HealthPolicy, Reason, ReasonCode
from nightbench.core.sentences import sentences
from nightbench.nodes.quarantine import (
    CLEAN,
    FAULT,
    PERSON,
    PREFLIGHT,
    QUARANTINED,
    RELEASED,
    WORKED,
    NodeEvent,
    node_state,
)

POLICY = HealthPolicy(quarantine_after=3)
START = datetime(2026, 11, 1, tzinfo=UTC)


def stand(*kinds: str, policy: HealthPolicy = POLICY):
    """Where n1 stands after events an hour apart: `fault` in a case, `ill` in a preflight."""
    return node_state("lab", "n1", events(*kinds), policy)


def events(*kinds: str):
    for hour, word in enumerate(kinds):
        by_person = word in (QUARANTINED, RELEASED)
        looked = word in ("ill", CLEAN)
        yield NodeEvent(
            cluster="lab",
            node="n1",
            at=START + timedelta(hours=hour),
            kind=FAULT if word == "ill" else word,
            reasons=(Reason(ReasonCode.PERSON, observed=f"{word} {hour}"),),
            by_whom="anna" if by_person else "nightbench",
            run_id=f"r{hour}",
            subject=PERSON if by_person else PREFLIGHT if looked else f"case/g{hour}",
        )


@pytest.mark.parametrize(
    ("kinds", "out"),
    [
        ((), False),
        ((FAULT, FAULT), False),
        ((FAULT, FAULT, FAULT), True),
        (("ill", "ill", "ill"), True),
        (("ill", FAULT, "ill"), True),
        ((FAULT, WORKED, FAULT, FAULT), False),
        (("ill", "ill", CLEAN, "ill"), False),
        # It looks well in the evening and fails in the night.
        ((CLEAN, FAULT, CLEAN, FAULT, CLEAN, FAULT), True),
        ((FAULT, FAULT, FAULT, CLEAN), False),
        ((FAULT, FAULT, FAULT, WORKED), True),
        ((FAULT, FAULT, FAULT, CLEAN, FAULT, FAULT), False),
        ((QUARANTINED,), True),
        ((QUARANTINED, CLEAN, WORKED), True),
        ((QUARANTINED, RELEASED), False),
        ((FAULT, FAULT, FAULT, RELEASED, FAULT), False),
        ((FAULT, FAULT, FAULT, QUARANTINED, CLEAN), True),
    ],
)
def test_rule(kinds, out):
    assert stand(*kinds).quarantined is out


def test_says_since_when_and_why():
    state = stand(FAULT, FAULT, FAULT, FAULT)
    assert state.since == START + timedelta(hours=2)
    assert sentences(state.reasons) == "3 faults in a row; the last fault in case/g2: fault 2"
    assert state.faults == 4
    assert state.by_whom == "nightbench"


def test_person_is_named():
    state = stand(QUARANTINED)
    assert (state.by_whom, sentences(state.reasons)) == ("anna", "quarantined 0")


def test_return_forgets_the_faults():
    state = stand(FAULT, FAULT, FAULT, CLEAN)
    assert (state.faults, state.since) == (0, START + timedelta(hours=3))


def test_what_was_loaded_late_counts_at_its_own_time():
    told = list(events(FAULT, FAULT, FAULT, CLEAN))
    assert node_state("lab", "n1", [told[3], told[0], told[2], told[1]], POLICY) == stand(
        FAULT, FAULT, FAULT, CLEAN
    )


def test_site_chooses_how_many():
    assert stand(FAULT, policy=HealthPolicy(quarantine_after=1)).quarantined
