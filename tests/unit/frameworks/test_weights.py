"""What a trainer says of its weights, with parameter servers and without."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import base_trainer
import numpy
import pytest
from base_runtime import Base as Runtime


class Meeting(Runtime):
    """Trainers that are threads."""

    def __init__(self, trainers: int) -> None:
        super().__init__(SimpleNamespace(device=None))
        self.meeting = threading.Barrier(trainers)

    def barrier(self) -> None:
        self.meeting.wait()


class Trainer(base_trainer.Base):
    """Moves a weight that all trainers share, unless it is broken."""

    def __init__(self, runtime: Runtime, rank: int, held: Any, **axes: Any) -> None:
        case = {"strategy": "parameter_server", "sync": "async"} | axes
        context: Any = SimpleNamespace(
            runtime=runtime, rank=rank, world_size=2, seed=1, batch_size=1, case=case,
            params={}, parameters=None, data_rank=rank, together=1,
            tell_progress=lambda: self.told.append(rank),
        )  # fmt: skip
        data: Any = SimpleNamespace(weights=lambda params, random: {"w": numpy.zeros(3)})
        self.told: list[int] = []
        super().__init__(context, None, data)
        self.initial_weights({"w": (3,)})
        self.held = held
        self.breaks = False
        self.look_s = 0.0
        self.queue = 0
        self.merged = 1

    def step(self) -> None:
        self.queue += 1
        if self.queue % self.merged == 0:
            self.held["w"] = self.held["w"] + (0 if self.breaks else 1)

    def weights(self) -> Any:
        time.sleep(self.look_s)
        return self.held


def ask(trainers: list[Trainer]) -> list[bool | None]:
    found: dict[int, bool | None] = {}
    threads = [
        threading.Thread(target=lambda t=t: found.update({t.context.rank: t.gradients_arrive()}))
        for t in trainers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(len(trainers))]


def pair(**axes: Any) -> list[Trainer]:
    runtime, held = Meeting(2), {"w": numpy.zeros(3)}
    return [Trainer(runtime, rank, held, **axes) for rank in (0, 1)]


def test_each_trainer_sees_its_own_gradients_arrive() -> None:
    trainers = pair()
    assert ask(trainers) == [True, True]
    # Who waits for another's turn is not taken for idle.
    assert [trainer.told for trainer in trainers] == [[0, 0], [1, 1]]


def test_it_has_the_steps_for_that_where_looks_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_trainer, "ALONE_LIMIT_S", 0.01)
    trainers = pair()
    for trainer in trainers:
        trainer.look_s, trainer.merged = 0.02, 13
    assert ask(trainers) == [True, True]


def test_a_trainer_is_found_whose_gradients_do_not_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base_trainer, "ALONE_LIMIT_S", 0.3)
    first, second = pair()
    second.breaks = True
    assert ask([first, second]) == [True, False]


@pytest.mark.parametrize("axes", [{"sync": "sync"}, {"sync": "geo"}, {"strategy": "collective"}])
def test_trainers_that_cannot_step_alone_are_not_asked(axes: dict[str, str]) -> None:
    assert ask(pair(**axes)) == [None, None]


def test_weights_that_leave_out_a_parameter_are_refused() -> None:
    trainer, _ = pair(strategy="collective")
    trainer.keep_weights()
    trainer.held = {"v": numpy.zeros(3)}
    with pytest.raises(base_trainer.DoesNotFit, match="differ by v, w"):
        trainer.keep_weights()
