"""Cells (line, workload, execution) of a catalog, and whether two of them do the same work."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from nightbench.core.capabilities import refusal_of
from nightbench.core.model import Case, Catalog, Strategy
from nightbench.testkit.gangs import BENCHMARKS, smallest_scale

FirstStep = Callable[..., dict[str, Any]]
"""(line, workload, words of options) -> the document that first_step.py prints."""

NEAR = 0.01
"""Part of the loss by which moved weights are to change it."""
SLOPE_TOLERANCE = 0.05

TOLERANCES = {"resnet50_v1.5": 3e-3, "se_resnext50_32x4d": 5e-3, "vgg16_cifar": 1e-2}
"""Workload -> by which norms of gradients may differ if batch norms see few pixels at the
smallest scale, and amplify rounding. PyTorch compared with itself, with ONEDNN_MAX_CPU_ISA=SSE41,
is 1e-3 off in ResNet-50 and 3e-3 in vgg16_cifar; OneFlow is 2e-3 off it in SE-ResNeXt, of 1x1."""


@dataclass(frozen=True)
class TrainedCell:
    """A workload as a line trains it on CPUs, and the line whose work it must do."""

    workload: str
    line: str
    execution: str
    reference: str | None
    """None if it is this one, or no other runs the workload."""
    tolerance: float = 1e-3
    """By which norms of gradients may differ from it, relative."""

    def __str__(self) -> str:
        """Its name in the list of tests."""
        return "-".join(
            [self.workload, self.line, *([self.execution] * (self.execution != "default"))]
        )


def cells(catalog: Catalog, reference: str | None = None) -> list[TrainedCell]:
    """Return every cell that trains on CPUs, by workload.

    The others are compared with `reference` if it has the workload [default: the one that runs
    most workloads].
    """
    able = [
        (workload, line, execution)
        for workload in sorted(catalog.workloads)
        for line in catalog.workloads[workload].frameworks
        if not catalog.frameworks[line].for_tests
        for execution in ("default", *sorted(catalog.frameworks[line].axes.get("execution", ())))
        if _runs(catalog, workload, line, execution)
    ]
    lines = [line for _, line, _ in able]
    found = []
    for workload, group in groupby(able, key=lambda each: each[0]):
        here = list(group)
        candidates = sorted(
            {line for _, line, _ in here}, key=lambda x: (x != reference, -lines.count(x), x)
        )
        for _, line, execution in here:
            is_reference = (line, execution) == (candidates[0], "default")
            held = None if is_reference else candidates[0]
            tolerance = TOLERANCES.get(workload, TrainedCell.tolerance)
            found.append(TrainedCell(workload, line, execution, held, tolerance))
    return found


def _runs(catalog: Catalog, workload: str, line: str, execution: str) -> bool:
    scale = smallest_scale(catalog.workloads[workload].scales)
    axes = catalog.frameworks[line].axes
    case = Case(
        workload,
        line,
        Strategy.SINGLE,
        execution=execution,
        batch_size_per_device=1,
        scale=scale,
    )
    # A line may have no step without a compiler.
    cases = (replace(case, compiler=name) for name in ("none", *axes.get("compiler", ())))
    support = axes.get("execution", {}).get(execution, {})
    runs = any(refusal_of(each, catalog) is None for each in cases)
    return runs and not isinstance(support.get("cpu"), str)


def run_first_step(
    python: str, line: str, workload: str, words: Iterable[str], code: Path = BENCHMARKS
) -> dict[str, Any]:
    """Return what first_step.py prints in the environment of a line.

    Raises:
        AssertionError: it failed; the end of its log.
    """
    argv = [python, str(code / "first_step.py"), line, workload, *words]
    # If several run at a time, threads would wait for cores that other processes use.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], tolerance: float = TrainedCell.tolerance
) -> list[str]:
    """Return in which loss, parameters and gradients two first steps differ, a sentence for each.

    The tolerance of the norm of a gradient is relative; a loss may differ by 1e-4.
    """
    first, second = one["line"], other["line"]
    norms, others = one["gradient_norms"], other["gradient_norms"]
    found = [
        f"{name}: only {first if name in norms else second} has it"
        for name in sorted(norms.keys() ^ others.keys())
    ]
    if one["parameters"] != other["parameters"]:
        found.append(
            f"parameters: {one['parameters']} in {first}, {other['parameters']} in {second}"
        )
    if not abs(one["loss"] - other["loss"]) <= 1e-4:
        found.append(
            f"loss: {one['loss']:.6g} in {first}, {other['loss']:.6g} in {second}; expected the "
            "mean over all samples of the same batch, from the same weights"
        )
    for name in sorted(norms.keys() & others.keys()):
        mine, theirs = norms[name], others[name]
        if not min(mine, theirs) > 0:
            found.append(
                f"{name}: it has no gradient ({mine:.6g} in {first}, {theirs:.6g} in {second})"
            )
        elif not abs(mine - theirs) <= tolerance * theirs:
            ratio = f"{mine / theirs:.4g} times"
            found.append(f"{name}: norm of the gradient {mine:.6g} in {first}, {ratio} {second}'s")
    return found


def unused_halves(first_step: FirstStep, line: str, workload: str, *words: str) -> list[str]:
    """Return which half of a batch a line does not train on, a sentence for each."""
    loss = first_step(line, workload, *words)["loss"]
    return [
        f"{line} does not train on the {unused} half of the batch: the loss stays {loss:.6g} "
        f"if the {used} half takes its place"
        for used, unused in (("first", "second"), ("second", "first"))
        if abs(first_step(line, workload, *words, "--twice", used)["loss"] - loss) <= 1e-7
    ]


def gradients_of_no_loss(
    first_step: FirstStep, line: str, workload: str, folder: Path, *words: str
) -> list[str]:
    """Return which gradients of a line are not those of its own loss, a sentence for each.

    The loss is looked at if every weight was moved a little along its gradient, and against it:
    it has to change by the sum of their norms. If it does not, each is moved alone.
    """
    file = str(folder / "gradients.npz")
    here = first_step(line, workload, *words, "--gradients", file)
    norms = {name: norm for name, norm in here["gradient_norms"].items() if norm}

    def slope(names: list[str]) -> tuple[float, float]:
        """Change of the loss by unit of length, and what it should be."""
        expected = sum(norms[name] for name in names)
        by = NEAR * abs(here["loss"]) / expected
        moved = [*words, "--along", file, "--only", *names, "--by"]
        losses = [first_step(line, workload, *moved, str(step))["loss"] for step in (by, -by)]
        return (losses[0] - losses[1]) / (2 * by), expected

    def is_wrong(found: float, expected: float) -> bool:
        return not abs(found - expected) <= SLOPE_TOLERANCE * expected

    found, expected = slope(list(norms))
    if not is_wrong(found, expected):
        return []
    alone = {name: slope([name]) for name in norms}
    wrong = [
        f"{name}: norm of the gradient {norm:.6g}, but the loss changes by {found:.6g}"
        for name, (found, norm) in alone.items()
        if is_wrong(found, norm)
    ]
    return wrong or [
        f"all weights: gradients of {expected:.6g}, but the loss changes by {found:.6g}"
    ]
