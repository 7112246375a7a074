"""What is read of a simulated training's log is what was simulated, or it is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from logs import reading, writers
from logs.summary import summary
from simulated import TRAINERS, Trainer, Training


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    every = draw(st.sampled_from([1, 3, 5, 10, 50]))
    lines = draw(st.integers(4, 30))
    return Training(
        steps=every * lines,
        every=every,
        begin=every * draw(st.sampled_from([0, 0, 1, 7, 100, 991])),
        warmup=draw(st.integers(0, 25)),
        step_s=draw(st.sampled_from([0.05, 0.4, 1.25, 12.0])),
        batch=draw(st.sampled_from([8, 64, 960])),
        evaluates=draw(st.sampled_from([0, 0, 2, 3])),
        epoch=every * draw(st.integers(4, 12)),
    )


AS_EVALUATION = Training(steps=100, warmup=12, step_s=12.0, evaluates=2, epoch=40)
"""The bars of its evaluations have the name and the number of steps of its own."""


def _run(trainer: Trainer, run: Training) -> Training:
    return run if trainer.resumes else replace(run, begin=0)


def _check(trainer: Trainer, run: Training, text: str, tmp_path: Any, **options: str) -> Any:
    """Read a log, and compare it with the training; return what was read, None if refused."""
    written = [since - run.begin for _, since in trainer.write(run) if since >= 0]
    clean = [since for since in written if since >= run.warmup]
    file = tmp_path / "train.log"
    file.write_text(text)
    given_options = {**trainer.options, **options}
    if trainer.smooth and run.begin and len(clean) < 60:
        return None  # It may be too short to forget the steps before.
    if len(written) == 1 and trainer.format == "mlperf":
        found = summary(trainer.format, str(file), given_options, run.warmup)
        assert found["notes"] == ["the values are means over the whole training, warm-up included"]
        return None
    if not clean:
        with pytest.raises(reading.LogError, match=r"--warmup 0|states a step"):
            summary(trainer.format, str(file), given_options, run.warmup)
        return None
    found = summary(trainer.format, str(file), given_options, run.warmup)
    right = {"step_s": run.step_s if trainer.states_time else None, "throughput": None}
    if trainer.throughput:
        right["throughput"] = trainer.throughput(run) / run.step_s
    for name, value in right.items():
        assert (found[name] is None) == (value is None), name
        if value is None:
            continue
        if trainer.smooth:
            assert 0 < found[name]["n"] <= len(clean)
            if found[name]["n"] >= 30:
                assert found[name]["median"] == pytest.approx(value, rel=0.05)
            continue
        assert found[name]["n"] == len(clean)
        for bound in ("minimum", "maximum"):
            assert found[name][bound] == pytest.approx(value, rel=0.03), name
    assert found["left_out"] == {}
    return found


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=25)
@given(run=trainings())
@example(run=AS_EVALUATION)
@example(run=replace(AS_EVALUATION, warmup=2, step_s=0.05))
@example(run=replace(AS_EVALUATION, evaluates=33))
@example(run=Training(steps=6, every=1, warmup=1, step_s=0.05, batch=64, evaluates=2, epoch=6))
def test_a_training_is_read_as_it_was(tmp_path_factory, name, run):
    trainer = TRAINERS[name]
    run = _run(trainer, run)
    _check(trainer, run, _text(trainer, run), tmp_path_factory.mktemp("log"))


def _text(trainer: Trainer, run: Training) -> str:
    return "".join(text for text, _ in trainer.write(run)) + "\nthe end\n"


@pytest.mark.parametrize("name", [n for n, each in TRAINERS.items() if each.resumes])
@settings(max_examples=25)
@given(run=trainings(), lines=st.integers(3, 12), back=st.integers(1, 3))
def test_of_a_training_that_was_started_again_the_last_run_is_read(
    tmp_path_factory, name, run, lines, back
):
    """The first run is slower; it crashed a few lines behind the checkpoint."""
    trainer = TRAINERS[name]
    every = 1 if trainer.by_step else run.every
    before = run.begin - every * lines
    run = replace(run, begin=max(0, run.begin))
    crashed = replace(run, begin=max(0, before), step_s=3 * run.step_s)
    until = run.begin + every * (back + 2)
    run = replace(run, total=max(until + every, run.end))
    crashed = replace(crashed, steps=until - crashed.begin, total=run.total)
    text = _text(trainer, crashed) + "Traceback\n" + _text(trainer, run)
    _check(trainer, run, text, tmp_path_factory.mktemp("log"))


WITHOUT_EVENTS = [n for n, each in TRAINERS.items() if each.format != "mlperf"]
MARKS = ["[rank{}]: ", "{}: ", "[1,{}]<stdout>:", "(RayTrainWorker pid={}) "]


@pytest.mark.parametrize("name", WITHOUT_EVENTS)
@settings(max_examples=25)
@given(run=trainings(), mark=st.sampled_from(MARKS), ranks=st.integers(2, 4))
def test_one_process_of_several_is_read_and_named(tmp_path_factory, name, run, mark, ranks):
    trainer = TRAINERS[name]
    run = _run(trainer, run)
    lines = _text(trainer, run).splitlines()
    text = "".join(f"{mark.format(rank)}{line}\n" for line in lines for rank in range(ranks))
    found = _check(trainer, run, text, tmp_path_factory.mktemp("log"))
    if found:
        assert f"one of {ranks} processes" in found["notes"][0]
        assert found["skipped"][writers.OTHER_PROCESS] >= found["lines"] * (ranks - 1)


@pytest.mark.parametrize("name", [n for n in WITHOUT_EVENTS if not TRAINERS[n].smooth])
@settings(max_examples=25)
@given(run=trainings(), data=st.data())
def test_a_step_that_is_stated_again_is_no_restart(tmp_path_factory, name, run, data):
    trainer = TRAINERS[name]
    run = _run(trainer, run)
    lines = list(trainer.write(run))
    stated = [n for n, (_, since) in enumerate(lines) if since >= 0]
    assume(stated)
    again = data.draw(st.sampled_from(stated))
    text = "".join(text * (1 + (n == again)) for n, (text, _) in enumerate(lines)) + "the end\n"
    _check(trainer, run, text, tmp_path_factory.mktemp("log"))
