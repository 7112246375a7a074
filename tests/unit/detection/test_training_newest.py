"""Whether the newest nights of a series are enough for the verdict `same`."""

from __future__ import annotations

import random
from itertools import product

import pytest
from tests.unit.detection.test_training import LOSSES, night

from nightbench.core.model import TrainingKind
from nightbench.detection.training import PROVED_NIGHTS, judge_training, newest_are_enough
from nightbench.detection.training_night import FIGURES, TrainingNight
from nightbench.detection.training_tolerance import TrainingTraits
from nightbench.night.training_verdicts import NIGHTS_COMPARED

SERIES = 3000
TRAITS = [
    TrainingTraits("fp32", is_asynchronous=asynchronous, has_dropout=dropout, rounding_grows=grows)
    for asynchronous, dropout, grows in product((False, True), repeat=3)
]


def drawn(draw: random.Random) -> list[TrainingNight]:
    """Return the nights of a series; the last one is tonight."""
    versions, conditions, lengths = (draw.choice((1, 1, 1, 2, 40)) for _ in range(3))
    spread = draw.choice((0.0, 1e-7, 1e-6, 1e-5, 1e-3, 0.03, 0.1))
    width = draw.choice((0.0, 0.0, 1e-7, spread))
    takes_turns = draw.random() < 0.5
    changed, false_alarms, other_nodes = (draw.choice((0.0, 0.05)) for _ in range(3))
    of_version = [
        {figure: LOSSES[figure] * (1 + draw.uniform(0, spread)) for figure in FIGURES}
        for _ in range(versions)
    ]
    nights = draw.randint(2, 40)
    found = []
    for number in range(nights):
        version = draw.randrange(versions) if takes_turns else number * versions // nights
        more = {
            "conditions": float(draw.randrange(conditions)),
            "steps": 100.0 + draw.randrange(lengths),
        }
        found.append(
            night(
                number,
                of_version[version] | more,
                width=draw.choice((0.0, width)),
                version=f"2.{version}",
                build_id=f"{version}",
                fingerprint_id=draw.choice((None, "g")) if draw.random() < other_nodes else "f",
                is_changed=draw.random() < changed,
                is_false_alarm=draw.random() < false_alarms,
            )
        )
    return found


@pytest.mark.parametrize("traits", TRAITS, ids=str)
def test_older_nights_would_not_change_the_verdict(traits: TrainingTraits) -> None:
    draw = random.Random(1)
    of_one_build = of_new_build = 0
    for _ in range(SERIES):
        *past, tonight = drawn(draw)
        good = [each for each in reversed(past) if not each.is_changed][:NIGHTS_COMPARED]
        changed = [each for each in past if each.is_changed and (not good or each.at > good[0].at)]
        newest, older = good[:PROVED_NIGHTS] + changed, good[PROVED_NIGHTS:]
        has_older = any(each.build_id == tonight.build_id for each in older)
        if not newest_are_enough(tonight, newest, traits, has_older):
            continue
        if judge_training(tonight, newest, traits).kind is TrainingKind.SAME:
            verdict = judge_training(tonight, good + changed, traits)
            assert verdict.kind is TrainingKind.SAME, (verdict, tonight, newest, older)
            of_one_build += bool(older and has_older)
            of_new_build += bool(older and not has_older)
    assert of_one_build > 100
    assert (of_new_build > 100) is not (traits.is_asynchronous or traits.has_dropout)
