"""Devices that split matrices, layers and batches train as one device does with the same batch."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from tests.integration.test_sharding import MOMENTUM, TOLERANCE, alone, job_like, losses_of

from nightbench.testkit.gangs import BENCHMARKS, refused, run_gang

pytestmark = [pytest.mark.framework, pytest.mark.slow, pytest.mark.timeout(900)]

TOKENS = 128
"""Of a sequence at smoke."""
DEEP = {"layers": 4, "parameters": 312896}
"""For two stages on each of two devices."""
MOST = 4 * 220480
"""Bytes of the parameters."""
OUTSIDE = 4 * (2 * 64000 + 64)
"""Of them, of those outside of layers."""
ROTATIONS = 2 * TOKENS * 8 * 4
"""Of the table that DistributedDataParallel broadcasts with each forward."""


def hidden(samples: int) -> int:
    """Bytes of what layers hand on, for so many samples."""
    return samples * TOKENS * 64 * 4


SENT = """


class Trainer(Trainer):
    \"\"\"Writes what this rank's sockets have sent in one more step.\"\"\"

    def count_step(self):
        before = sent()
        self.step()
        with open("sent.json", "w") as stream:
            json.dump(sent() - before, stream)


def sent():
    \"\"\"Bytes, of `tcpi_bytes_acked` of Linux's struct tcp_info.\"\"\"
    total = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            each = socket.socket(fileno=os.dup(int(number)))
        except OSError:  # it is another kind of file
            continue
        with each:
            if each.type == socket.SOCK_STREAM and each.family != socket.AF_UNIX:
                info = each.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 128)
                total += int.from_bytes(info[120:128], sys.byteorder)
    return total
"""
"""For what PaddlePaddle exchanges itself, of which nothing is seen in Python."""

EXCHANGE = re.compile(
    r"= (.*?) (all-gather|all-reduce|reduce-scatter|collective-permute)\("
    r".*(?:replica_groups|source_target_pairs)=(?:{{([\d,]+)}|mesh\[(.*?)\] {(.*?)})"
)
"""Of compiled code by `shard_map`: what it gives, its name, and the first group of ranks, or who
hands on first to whom. Newer versions write the sizes of the mesh's axes, and the axes of the
groups."""


def sent_by_compiled(folder: Path, parts: int, ticks: int) -> float:
    """Bytes that rank 0 sends in JAX's compiled step, as rings send what its collectives give.

    Loops are over ticks; in a branch of them it sends where a tick has one of its parts.
    """
    (text,) = (path.read_text() for path in folder.glob("*jit__train.*after_optimizations.txt"))
    times = dict.fromkeys(re.findall(r" body=(%[\w.-]+)", text), ticks)
    for branches in re.findall(r" branch_computations={(.*?)}", text):
        times.update(dict.fromkeys(branches.split(", "), parts))
    return sum(times.get(each.split(" ")[0], 1) * sent_once(each) for each in text.split("\n\n"))


def sent_once(computation: str) -> float:
    """Bytes that rank 0 sends in one computation of a compiled step."""
    sent = 0.0
    for given, operator, group, mesh, axes in EXCHANGE.findall(computation):
        ranks = group.count(",") + 1
        if mesh:
            sizes = dict(re.findall(r"('\w+')=(\d+)", mesh))
            ranks = math.prod(int(sizes[axis]) for axis in axes.split(","))
        shapes = re.findall(r"[fs]32\[([\d,]*)\]", given)
        whole = sum(4 * math.prod(map(int, filter(None, shape.split(",")))) for shape in shapes)
        if operator == "collective-permute":
            sent += whole if group.startswith("0,") else 0
            continue
        times = {"all-gather": 1, "all-reduce": 2, "reduce-scatter": ranks}[operator]
        sent += times * whole * (ranks - 1) / ranks
    return sent


@pytest.mark.parametrize(
    ("line", "workload", "ranks", "same", "changes", "cases"),
    [
        (
            *("pytorch", "llama", 2, 2, {}),
            [
                # Two layers of 8 exchanges each, 4 around them; the loss's sums, and norms.
                ({"tensor": 2}, 20 * hidden(4) / 2 + 3 * 4 * TOKENS * 4 + 5 * 64 * 4),
                ({"pipeline": 2, "schedule": "1f1b", "micro_batches": 2}, hidden(4)),
                # Keys and values are half of what is handed on each; two layers, there and back.
                ({"context": 2}, MOST + 2 * 2 * hidden(4) / 2),
            ],
        ),
        pytest.param(
            *("pytorch", "llama", 2, 1, {}),
            [({"micro_batches": 2, "recompute": "full"}, MOST + ROTATIONS / 2)],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("pytorch", "llama", 4, 2, MOMENTUM),
            [({"pipeline": 2, "schedule": "gpipe", "micro_batches": 4}, None)],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("pytorch", "llama", 4, 2, MOMENTUM),
            [
                ({"tensor": 2, "shard": 2, "shard_stage": 3, "recompute": "selective"}, None),
                ({"context": 2, "shard": 4, "shard_stage": 3, "recompute": "full"}, None),
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("pytorch", "llama", 4, 4, MOMENTUM),
            [
                ({"tensor": 2, "pipeline": 2, "schedule": "1f1b", "micro_batches": 2}, None),
                ({"tensor": 2, "context": 2}, None),
                ({"context": 2, "pipeline": 2, "schedule": "1f1b", "micro_batches": 2}, None),
                ({"context": 4}, MOST * 1.5 + 2 * 2 * hidden(8) * 3 / 4),
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("pytorch", "llama", 2, 2, DEEP),
            [
                # Three stages hand on, there and back; with the last beside the first, two.
                ({"pipeline": 2, "schedule": "interleaved", "micro_batches": 2}, 3 * hidden(4)),
                ({"pipeline": 2, "schedule": "zero_bubble", "micro_batches": 4}, 2 * hidden(4)),
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("pytorch", "llama", 4, 2, MOMENTUM | DEEP),
            [
                (
                    {"pipeline": 2, "schedule": "interleaved", "micro_batches": 2}
                    | {"shard": 2, "shard_stage": 3},
                    None,
                ),
            ],
            marks=pytest.mark.large,
        ),
        (
            *("pytorch", "mixtral", 2, 1, {}),
            [
                # Of the tokens of both layers, twice each, there and back, so do their gradients;
                # routed as they are, about half of them to the other device.
                (
                    {"expert": 2},
                    pytest.approx(
                        4 * 153_920 + ROTATIONS / 2 + 4 * 2 * 2 * hidden(2) / 2, rel=0.25
                    ),
                ),
            ],
        ),
        pytest.param(
            *("pytorch", "mixtral", 4, 1, MOMENTUM),
            [
                ({"expert": 2}, None),
                # What is outside of experts as shards; half of the experts, of which two have the
                # same; tokens as above.
                (
                    {"expert": 2, "shard": 4, "shard_stage": 2},
                    pytest.approx(
                        2 * 4 * 153_920 * 3 / 4
                        + 2 * 4 * (424_256 - 153_920) / 2 / 2
                        + 4 * 2 * 2 * hidden(2) / 2,
                        rel=0.1,
                    ),
                ),
                (
                    {"expert": 2, "shard": 4, "shard_stage": 3}
                    | {"micro_batches": 2, "recompute": "full"},
                    None,
                ),
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "mixtral", 2, 1, MOMENTUM),
            # Of two layers all tokens, and what comes back of them, forward and backward; beside
            # them their choices and weights, and gradients of these.
            [({"expert": 2}, 4 * 153_920 + 4 * 2 * hidden(2) + 2 * 3 * 2 * 2 * TOKENS * 4)],
            marks=pytest.mark.large,
        ),
        (
            *("jax", "llama", 2, 2, {}),
            [
                ({"tensor": 2}, None),
                # All samples' hidden values to the layers and from them, forward and backward, a
                # part in each of three ticks, what is outside of layers, and the loss.
                (
                    {"pipeline": 2, "schedule": "gpipe", "micro_batches": 2},
                    4 * hidden(4) / 2 + 3 * hidden(2) + OUTSIDE + 4,
                ),
            ],
        ),
        pytest.param(
            *("jax", "llama", 4, 2, MOMENTUM | DEEP),
            [({"pipeline": 2, "schedule": "gpipe", "micro_batches": 4}, None)],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "llama", 4, 4, MOMENTUM | DEEP),
            [({"tensor": 2, "pipeline": 2, "schedule": "gpipe", "micro_batches": 4}, None)],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "llama", 4, 2, MOMENTUM | DEEP),
            [
                # A stage's weights are gathered once, or by each part forward and backward; their
                # gradients are scattered by each part, and not in the fifth tick.
                (
                    {"pipeline": 2, "schedule": "gpipe", "micro_batches": 4}
                    | {"shard": 2, "shard_stage": stage},
                    4 * hidden(4) / 2
                    + 5 * hidden(1)
                    + 2 * OUTSIDE * 3 / 4
                    + 4
                    + exchanged * 4 * 184832 / 2 / 2,
                )
                for stage, exchanged in ((2, 1 + 4), (3, 3 * 4))
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "llama", 8, 4, MOMENTUM | DEEP),
            [
                (
                    {"tensor": 2, "pipeline": 2, "schedule": "gpipe", "micro_batches": 4}
                    | {"shard": 2, "shard_stage": stage},
                    None,
                )
                for stage in (2, 3)
            ],
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "llama", 2, 1, MOMENTUM, [({"micro_batches": 2}, None)]),
            marks=pytest.mark.large,
        ),
        pytest.param(
            *("jax", "llama", 4, 2, MOMENTUM),
            # Of the exchanges that XLA does not choose: a device's half of the matrices, and norms.
            [({"tensor": 2, "shard": 2, "shard_stage": 2}, MOST / 2 + 5 * 64 * 4 / 2)],
            marks=pytest.mark.large,
        ),
        (
            *("paddle3", "llama", 2, 2, {}),
            [
                # Two layers of 7 sums each, and 2 around them; logits are gathered for the loss.
                (
                    {"tensor": 2},
                    pytest.approx(16 * hidden(4) + 4 * TOKENS * 1000 * 4 / 2, rel=0.03),
                ),
            ],
        ),
        (
            *("paddle3", "llama", 4, 2, MOMENTUM),
            [({"tensor": 2, "micro_batches": 2, "recompute": "full"}, None)],
        ),
        (
            *("paddle3", "llama", 2, 1, MOMENTUM),
            [
                ({"micro_batches": 2, "recompute": "full"}, None),
                ({"shard": 2, "shard_stage": 1, "micro_batches": 2, "recompute": "full"}, None),
            ],
        ),
    ],
)
def test_splits_train_as_one_device_does(
    tmp_path: Path,
    interpreter: Callable[[str], str],
    line: str,
    workload: str,
    ranks: int,
    same: int,
    changes: dict[str, Any],
    cases: list[tuple[dict[str, Any], float | None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    python = interpreter(line)
    expected = alone(tmp_path, python, line, workload, ranks // same, changes, 2 * ranks)
    assert expected[-1] < expected[0]
    code = BENCHMARKS
    if line == "paddle3":
        code = tmp_path / "sent"
        shutil.copytree(BENCHMARKS, code, ignore=shutil.ignore_patterns("__pycache__"))
        trainer = code / "frameworks" / line / "trainer.py"
        imports = "import json\nimport os\nimport socket\nimport sys\n"
        trainer.write_text(imports + trainer.read_text() + SENT)
    for number, (axes, sent) in enumerate(cases):
        job = job_like(line, workload, changes, trainers=ranks, strategy="collective", **axes)
        compiled = tmp_path / f"compiled-{number}"
        if line == "jax" and sent is not None:
            flags = f"--xla_dump_to={compiled} --xla_dump_hlo_as_text"
            monkeypatch.setenv("XLA_FLAGS", f"{flags} --xla_dump_hlo_module_re=.*_train.*")
        (folder := tmp_path / str(number)).mkdir()
        found = run_gang(folder, job, python, code=code)
        losses = [losses_of(rank) for rank in found]
        assert [mean(each) for each in zip(*losses, strict=True)] == pytest.approx(
            expected, rel=TOLERANCE
        ), axes
        # Ranks that compute the same samples report one loss, and count each sample once.
        assert len({tuple(each) for each in losses}) == ranks // same
        assert sum(rank["samples_per_step"] for rank in found) == 2 * ranks * TOKENS
        assert refused(job, found) == {}
        told = {"tensor", "context", "expert", "schedule"} & axes.keys()
        if line == "jax" and "schedule" in axes:
            told |= {"shard_stage"} & axes.keys()
        used = [{axis: rank["modes"].get(axis) for axis in told} for rank in found]
        assert used == [{axis: str(axes[axis]) for axis in told}] * ranks, axes
        if line == "pytorch":
            most = max(rank["sent_bytes_per_step"] for rank in found)
        elif line == "paddle3":
            read = [json.loads(path.read_text()) for path in folder.glob("trainer-*/sent.json")]
            most = max(read)
        elif sent is not None:  # JAX counts no exchanges itself.
            parts = axes.get("micro_batches", 1)
            most = sent_by_compiled(compiled, parts, parts + 1)
        else:
            continue
        assert most > 0 if sent is None else most == sent, axes
