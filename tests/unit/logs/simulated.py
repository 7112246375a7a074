"""Trainings of which everything is known, and the logs that each trainer would write of them.

A trainer's log is made from the seconds of each step, so that a figure is wrong where the reader
takes a step of the warm-up, of an evaluation, of an earlier run or of another process for one of
the training that was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

DEVICES = 8
LENGTH = 4096
"""Tokens of an example."""
SLOW = 9.0
"""Times a usual step that one of the warm-up takes."""


@dataclass(frozen=True)
class Training:
    """One run of a training.

    Args:
        steps: of this run.
        every: steps from line to line.
        begin: steps before this run: it was resumed.
        warmup: slow steps at its begin.
        step_s: seconds of any other step.
        batch: examples of a step, on all devices.
        evaluates: lines between two evaluations; 0: none.
        epoch: steps in an epoch, a multiple of `every`.
        total: steps of the whole training; 0: it ends with this run.
    """

    steps: int = 60
    every: int = 10
    begin: int = 0
    warmup: int = 20
    step_s: float = 0.5
    batch: int = 32
    evaluates: int = 0
    epoch: int = 30
    total: int = 0

    @property
    def end(self) -> int:
        """Step at which the training is to end."""
        return self.total or self.begin + self.steps

    def seconds(self, since: int, step: int) -> float:
        """Duration of the steps behind `since`, up to `step`."""
        slow = max(0, min(step, self.begin + self.warmup) - max(since, self.begin))
        return self.step_s * (step - since + (SLOW - 1) * slow)

    def mean(self, since: int, step: int) -> float:
        """Seconds of a step, over those behind `since` up to `step`."""
        return self.seconds(since, step) / (step - since)

    def lines(self, first: bool = False) -> Iterator[tuple[int, int]]:
        """From which step to which each line reaches; with `first` the first step has its own."""
        before = self.begin
        for step in range(self.begin + 1, self.begin + self.steps + 1):
            if step % self.every == 0 or (first and before == self.begin == step - 1):
                yield before, step
                before = step

    def evaluated(self, line: int) -> bool:
        """Whether an evaluation follows the line of that number."""
        return bool(self.evaluates) and line % self.evaluates == self.evaluates - 1


@dataclass(frozen=True)
class Trainer:
    """Writes a log.

    Args:
        format: by which it is read.
        write: yields for each line of steps its text and the step before the first of its mean.
        throughput: units in a step that its throughput counts; None if it states none.
        states_time: whether it states the seconds of a step.
        resumes: whether a later run numbers its steps on.
        by_step: whether each step has a line.
        options: of the reader.
        smooth: whether its figures are smoothed ones.
    """

    format: str
    write: Callable[[Training], Iterator[tuple[str, int]]]
    throughput: Callable[[Training], float] | None = None
    states_time: bool = True
    resumes: bool = True
    by_step: bool = False
    options: dict[str, str] = field(default_factory=dict)
    smooth: bool = False


Lines = Iterator[tuple[str, int]]


def megatron(run: Training) -> Lines:
    end = run.end
    for n, (since, step) in enumerate(run.lines()):
        yield (
            f" [2030-01-02 03:04:05.123456] iteration {step:8d}/{end:8d} | consumed samples: "
            f"{step * run.batch:12d} | elapsed time per iteration (ms): "
            f"{1e3 * run.mean(since, step):.1f} | learning rate: 1.000000E-04 | global batch size: "
            f"{run.batch:5d} | lm loss: 2.012345E+00 | loss scale: 1.0 | grad norm: 1.234 |\n",
            since,
        )
        if run.evaluated(n):
            yield (
                f" validation loss at iteration {step} | lm loss value: 2.0 | lm loss PPL: 7.4 |\n",
                -1,
            )


def nemo(run: Training) -> Lines:
    end = run.end
    for _, step in run.lines():
        at = step - 1
        yield (
            f"Training epoch 0, iteration {at}/{end - 1} | lr: 7.496e-06 | global_batch_size: "
            f"{run.batch} | global_step: {at} | reduced_train_loss: 11.96 | train_step_timing in "
            f"s: {run.mean(step - 1, step):.4g} | consumed_samples: {step * run.batch}\n",
            step - 1,
        )


def nemo_1(run: Training) -> Lines:
    end = run.end
    for _, step in run.lines():
        yield (
            f"\rEpoch 0: :  {100 * step // end}%|##   | {step}/{end} [10:21<00:00, v_num=, "
            f"reduced_train_loss=6.450, global_step={_tqdm(step)}, consumed_samples="
            f"{_tqdm(step * run.batch)}, train_step_timing in s={run.mean(step - 1, step):.3g}]\n",
            step - 1,
        )


def _tqdm(number: float) -> str:
    return f"{float(number):.3g}" if number >= 1000 else f"{float(number):.1f}"


def torchtitan(run: Training) -> Lines:
    for n, (since, step) in enumerate(run.lines(first=True)):
        tps = run.batch * LENGTH / DEVICES / run.mean(since, step)
        yield (
            f"[titan] 2030-01-02 03:04:05,678 - root - INFO - step: {step:2}  loss:  7.0000  "
            f"grad_norm:  1.0000  memory:  6.00GiB(7.50%)  tps: {round(tps):,}  tflops: 3.00  "
            "mfu: 0.30%\n",
            since,
        )
        if run.evaluated(n):
            yield f"[titan] - INFO - validate step: {step:2}  loss:  6.0000  tps: 99,999\n", -1


def maxtext(run: Training) -> Lines:
    for step in range(run.begin + 1, run.begin + run.steps + 1):
        seconds = run.mean(step - 1, step)
        yield (
            f"completed step: {step - 1}, seconds: {seconds:.3f}, TFLOP/s/device: 134.924, "
            f"Tokens/s/device: {run.batch * LENGTH / DEVICES / seconds:.3f}, total_weights: "
            "196608, loss: 10.374\n",
            step - 1,
        )


def deepspeed(run: Training) -> Lines:
    for since, step in run.lines():
        speed = run.batch / run.mean(since, step)
        yield (
            "[2030-01-02 03:04:05,714] [INFO] [timer.py:260:stop] epoch=0/micro_step="
            f"{2 * step}/global_step={step}, RunningAvgSamplesPerSec={speed / 2}, "
            f"CurrSamplesPerSec={speed}, MemAllocated=4.32GB, MaxMemAllocated=38.49GB\n",
            since,
        )


def deepspeed_pipeline(run: Training) -> Lines:
    for since, step in run.lines():
        mean = run.mean(since, step)
        yield (
            f"steps: {step} loss: 6.1234 iter time (s): {mean:.3f} samples/sec: "
            f"{run.batch / mean:.3f}\n",
            since,
        )


def huggingface(run: Training) -> Lines:
    """Of the Trainer: its bar, losses, and another bar for each evaluation."""
    end = run.end
    yield f"\r  0%|    | 0/{end} [00:00<?, ?it/s]", -1
    for n, (step, bar) in enumerate(_bars(run)):
        losses = f"{{'loss': 2.6, 'grad_norm': 1.8, 'epoch': {step / end:.2f}}}\n"
        yield f"\r{bar}" + (f"\n{losses}" if step % 10 == 0 else ""), step - 1
        if run.evaluated(n):
            draws = (f"\r {i}%|#   | {i}/100 [00:00<00:01, 99.00it/s]" for i in (10, 60, 100))
            start = "\r 0%|    | 0/100 [00:00<?, ?it/s]"
            yield start + "".join(draws) + "\n{'eval_loss': 2.1, 'eval_runtime': 1.0}\n", -1
    yield f"\r{' ' * 40}\n", -1


def accelerate(run: Training) -> Lines:
    """Of a script of diffusers: bars have descriptions, also those of other tasks."""
    yield "Loading pipeline components...: 100%|##| 4/4 [00:02<00:00,  2.00it/s]\n", -1
    yield "Map: 100%|##| 900/900 [00:02<00:00, 450.00 examples/s]\n", -1
    for _, bar in _bars(run):
        yield (
            f"\rSteps: {bar[:-1]}, lr=0.0001, step_loss=0.12]",
            int(bar.split("| ")[1].split("/")[0]) - 1,
        )
    yield "\n", -1


def _bars(run: Training) -> Iterator[tuple[int, str]]:
    """What tqdm draws: its rate forgets slowly, and a resumed bar begins with all steps before."""
    end, before, seconds = run.end, 0, 0.0
    steps_mean = time_mean = 0.0
    for step in range(run.begin + 1, run.begin + run.steps + 1):
        took = run.seconds(step - 1, step)
        seconds += took
        steps_mean = 0.3 * (step - before) + 0.7 * steps_mean
        time_mean = 0.3 * took + 0.7 * time_mean
        rate, before = steps_mean / time_mean, step
        said = f"{rate:5.2f}it/s" if rate > 1 else f"{1 / rate:5.2f}s/it"
        clock = f"{int(seconds // 60):02d}:{int(seconds % 60):02d}"
        yield step, f"{100 * step // end:3d}%|###  | {step}/{end} [{clock}<00:27, {said}]"


def paddle_nlp(run: Training) -> Lines:
    for since, step in run.lines():
        mean = run.mean(since, step)
        yield (
            f"[2030-01-02 03:04:05,000] [    INFO] - global step: {step}, epoch: 0, batch: "
            f"{step - 1}, loss: 9.5, avg_reader_cost: 0.00010 sec, avg_batch_cost: {mean:.5f} sec, "
            f"avg_samples: {run.batch:.5f}, ips: {run.batch / mean:.5f} sequences/sec\n",
            since,
        )


def paddle_clas(run: Training) -> Lines:
    """Of an image classifier: epochs from 1, iterations from 0."""
    for since, step, epoch in _of_epochs(run):
        mean = run.mean(since, step)
        yield (
            f"[2030/01/02 03:04:05] ppcls INFO: [Train][Epoch {epoch + 1}/90][Iter: "
            f"{step - epoch * run.epoch - 1}/{run.epoch}]lr: 0.1, loss: 6.9, batch_cost: "
            f"{mean:.5f}s, reader_cost: 0.2, ips: {run.batch / mean:.5f} images/sec\n",
            since,
        )
        if step % run.epoch == 0 and run.evaluates:
            yield (
                f"[2030/01/02 03:04:05] ppcls INFO: [Eval][Epoch {epoch + 1}][Iter: 0/49]loss: 7, "
                "batch_cost: 3.9s, reader_cost: 3.8, ips: 9.1 images/sec\n",
                -1,
            )


def _of_epochs(run: Training) -> Iterator[tuple[int, int, int]]:
    for since, step in run.lines():
        yield since, step, (step - 1) // run.epoch


def paddle_trainer(run: Training) -> Lines:
    """Of PaddleNLP in 2022: the batch of one step by the time of all."""
    yield (
        "[    INFO] -   Total train batch size (w. parallel, distributed & accumulation) = "
        f"{run.batch}\n",
        -1,
    )
    for since, step in run.lines():
        seconds = run.seconds(since, step)
        yield (
            f"[2030-01-02 03:04:05,000] [    INFO] - loss: 2.5, learning_rate: 3e-05, global_step: "
            f"{step}, interval_runtime: {seconds:.4f}, interval_samples_per_second: "
            f"{run.batch / seconds:.4f}, interval_steps_per_second: "
            f"{(step - since) / seconds:.4f}, epoch: 0.1\n",
            since,
        )


def tensorflow(run: Training) -> Lines:
    yield f"INFO:tensorflow:loss = 7.1, step = {run.begin}\n", -1
    for since, step in run.lines():
        seconds = run.seconds(since, step)
        yield (
            f"INFO:tensorflow:global_step/sec: {(step - since) / seconds:.5f}\n"
            f"INFO:tensorflow:examples/sec: {run.batch * (step - since) / seconds:.3f}\n"
            f"INFO:tensorflow:loss = 6.9, step = {step} ({seconds:.3f} sec)\n",
            since,
        )


def slim(run: Training) -> Lines:
    for _, step in run.lines():
        seconds = run.mean(step - 1, step)
        yield (
            f"INFO:tensorflow:global step {step}: loss = 67.3308 ({seconds:.3f} sec/step)\n",
            step - 1,
        )


def time_history(run: Training) -> Lines:
    for since, step in run.lines():
        seconds = run.seconds(since, step)
        yield (
            f"I0324 07:55:20.594147 140348344015936 keras_utils.py:145] TimeHistory: {seconds:.2f} "
            f"seconds, {run.batch * (step - since) / seconds:.2f} examples/second between steps "
            f"{since} and {step}\n",
            since,
        )


def keras(run: Training) -> Lines:
    """One line for each epoch, and one for its evaluation."""
    for epoch in range(run.begin // run.epoch, (run.begin + run.steps) // run.epoch):
        since = max(run.begin, epoch * run.epoch)
        step = (epoch + 1) * run.epoch
        yield f"Epoch {epoch + 1}/99\n", -1
        yield (
            f"{run.epoch}/{run.epoch} [{'=' * 30}] - 9s {1e3 * run.mean(since, step):.0f}ms/step - "
            "loss: 2.3\n",
            since,
        )
        if run.evaluates:
            yield f"{run.epoch}/{run.epoch} [{'=' * 30}] - 1s 1ms/step - loss: 2.3\n", -1


def keras_bars(run: Training) -> Lines:
    for since, step, epoch in _of_epochs(run):
        begin = max(run.begin, epoch * run.epoch)
        if since == begin:
            yield f"Epoch {epoch + 1}/99\n", -1
        bar = f"{step - epoch * run.epoch}/{run.epoch} [{'=>':.<30}]"
        yield f"\r{bar} - ETA: 3s - loss: 2.3", -1
        yield f"\r{bar} - 1s {1e3 * run.mean(begin, step):.0f}ms/step - loss: 2.3", begin
        if step % run.epoch == 0:
            yield "\n", -1


def pytorch_examples(run: Training) -> Lines:
    for _, step, epoch in _of_epochs(run):
        seconds = run.mean(step - 1, step)
        yield (
            f"Epoch: [{epoch}][{step - epoch * run.epoch:5d}/{run.epoch}]\tTime  {seconds:.3f} "
            "(  0.140)\tData  0.001 (  0.010)\tLoss 6.9e+00 (7.0e+00)\n",
            step - 1,
        )


def metric_logger(run: Training) -> Lines:
    """Of torchvision's references: a mean of the epoch's last 20 steps, and its last step."""
    for _, step, epoch in _of_epochs(replace(run, every=1)):
        place = step - epoch * run.epoch - 1
        if place % run.every == 0 or place == run.epoch - 1:
            since = step - min(20, place + 1)
            yield (
                f"Epoch: [{epoch}]  [{place:3d}/{run.epoch}]  eta: 0:00:09  lr: 0.01  loss: 6.9 "
                f"(7.0)  time: {run.mean(since, step):.4f}  data: 0.0012  max mem: 299\n",
                since,
            )
        if place == run.epoch - 1:
            yield f"Epoch: [{epoch}] Total time: 0:00:09 (0.1 s / it)\n", -1
            yield "Test:  [  0/10]  eta: 0:00:04  loss: 1.0 (1.0)  time: 9.9  data: 9.1\n", -1


def gluon(run: Training) -> Lines:
    for since, step, epoch in _of_epochs(run):
        yield (
            f"INFO:root:Epoch[{epoch}] Batch [{step - epoch * run.epoch - 1}]\tSpeed: "
            f"{run.batch / run.mean(since, step):.6f} samples/sec\taccuracy=0.001\tlr=0.1\n",
            since,
        )
        if step % run.epoch == 0:
            yield f"INFO:root:[Epoch {epoch}] time cost: 9.9\n", -1


def gluon_detection(run: Training) -> Lines:
    for since, step, epoch in _of_epochs(run):
        yield (
            f"[Epoch {epoch}][Batch {step - epoch * run.epoch - 1}], LR: 1.00E-03, Speed: "
            f"{run.batch / run.mean(since, step):.3f} samples/sec, ObjLoss=5.1, BoxLoss=2.2\n",
            since,
        )


def oneflow(run: Training) -> Lines:
    for since, step in run.lines():
        yield (
            f"train: epoch 0, iter {step}, loss: 7.087004, top_1: 0.000000, samples/s: "
            f"{run.batch / run.mean(since, step):.3f} 1597933942.9863544\n",
            since,
        )


def dllogger(run: Training) -> Lines:
    unit = {"metric": "train.total_ips", "metadata": {"unit": "images/s"}}
    yield f"DLLL {json.dumps({'type': 'METADATA', **unit})}\n", -1
    for since, step in run.lines():
        data = {"train.loss": 7.0, "train.total_ips": run.batch / run.mean(since, step)}
        yield f"DLLL {json.dumps({'type': 'LOG', 'step': [0, step], 'data': data})}\n", since
    yield f"DLLL {json.dumps({'type': 'LOG', 'step': [], 'data': {'train.total_ips': 1.0}})}\n", -1


def dllogger_text(run: Training) -> Lines:
    for since, step in run.lines():
        speed = run.batch / run.mean(since, step)
        yield f"DLL 2030-01-02 03:04:05.000000 - (0, {step}) total_ips : {speed} images/s\n", since
    yield "DLL 2030-01-02 03:06:05.000000 - () total_ips : 1.5 images/s \n", -1


def event(key: str, value: object, seconds: float, **metadata: object) -> str:
    said = {"namespace": "", "time_ms": 1900000000000 + round(1000 * seconds), "key": key}
    return f":::MLLOG {json.dumps({**said, 'value': value, 'metadata': metadata})}\n"


def _mlperf_head(run: Training, **more: object) -> Lines:
    for key, value in {"global_batch_size": run.batch, **more, "run_start": None}.items():
        yield event(key, value, 0), -1


def mlperf_steps(run: Training) -> Lines:
    """Lines of single steps, and of each block its mean, without a step."""
    yield from _mlperf_head(run, train_samples=10**9)
    clock = 0.0
    for n, (since, step) in enumerate(run.lines()):
        mean, own = run.mean(since, step), (step - since) * run.batch
        clock += run.seconds(since, step)
        seen = {"step": float(step - 1), "samples_count": float(step * run.batch)}
        stats = {"train_step_time": mean, "reduced_train_loss": 2.0}
        yield event("tracked_stats", stats, clock, **seen), since
        if n % 3 == 2:
            yield (
                event("tracked_stats", {"train_step_time": mean}, clock, samples_count=3 * own),
                -1,
            )
            clock += 30 if run.evaluates else 0


def mlperf_own_blocks(run: Training) -> Lines:
    """Means of blocks, which count their own samples."""
    yield from _mlperf_head(run)
    clock = 0.0
    for n, (since, step) in enumerate(run.lines()):
        own = (step - since) * run.batch
        yield event("block_start", None, clock, samples_count=own, step=since), -1
        clock += run.seconds(since, step)
        stats = {"train_step_time": run.mean(since, step)}
        yield event("tracked_stats", stats, clock, samples_count=own), since
        yield event("block_stop", None, clock, samples_count=own, step=step), -1
        clock += 30 if run.evaluated(n) else 0


def mlperf_blocks(run: Training) -> Lines:
    """Blocks that count all samples seen, at their begin in steps."""
    yield from _mlperf_head(run)
    clock = 0.0
    for n, (since, step) in enumerate(run.lines()):
        yield event("block_start", "", clock, samples_count=since), -1
        clock += run.seconds(since, step)
        yield event("block_stop", "", clock, samples_count=step * run.batch), since
        clock += 30 if run.evaluated(n) else 0


def mlperf_evaluations(run: Training) -> Lines:
    """Blocks that name steps or no number epochs; the evaluations behind them count samples."""
    yield from _mlperf_head(run, train_samples=10**9)
    clock, evaluations = 0.0, []
    for n, (since, step) in enumerate(run.lines()):
        of_steps = {"first_epoch_num": since, "epoch_count": step - since}
        where = of_steps if run.evaluates else {"first_epoch_num": n, "epoch_count": 1}
        yield event("block_start", n, clock, **where), -1
        clock += run.seconds(since, step)
        yield event("block_stop", n, clock, first_epoch_num=since), since
        evaluations.append(event("eval_accuracy", 0.5, clock, epoch_num=step * run.batch))
        yield "" if run.evaluates else evaluations[-1], -1
        clock += 3
    yield "".join(evaluations if run.evaluates else []), -1
    yield event("eval_samples", 10_000, clock), -1


def mlperf_jax(run: Training) -> Lines:
    """Blocks of one epoch each by their own words, with the samples seen since the beginning."""
    yield from _mlperf_head(run, train_samples=10**9)
    clock = 0.0
    for since, step in run.lines():
        for key, seen in (("block_start", since), ("block_stop", step)):
            where = {"epoch_count": 1, "train_samples_since_beginning": seen * run.batch}
            yield event(key, None, clock, **where), since if key == "block_stop" else -1
            clock += run.seconds(since, step) if key == "block_start" else 0.2


def mlperf_evaluated_epochs(run: Training) -> Lines:
    """Epochs that hold their evaluation; their speed without it is an event of its own."""
    yield from _mlperf_head(run, train_samples=run.epoch * run.batch)
    clock = 0.0
    for epoch in range(2 + run.steps // run.epoch):
        since, step = (n * run.epoch for n in (epoch, epoch + 1))
        yield event("epoch_start", None, clock, epoch_num=epoch), -1
        clock += run.seconds(since, step)
        speed = run.epoch * run.batch / run.seconds(since, step)
        yield event("throughput", speed, clock, epoch_num=epoch), -1
        yield event("eval_start", None, clock, epoch_num=epoch), -1
        clock += 30 if run.evaluates else 0
        yield event("eval_stop", None, clock, epoch_num=epoch), -1
        yield event("epoch_stop", None, clock, epoch_num=epoch), since


def mlperf_parts_of_epochs(run: Training) -> Lines:
    """Blocks of one epoch each by their own words, that begin at parts of epochs.

    The evaluation of the block before runs beside the training.
    """
    parts = 20
    yield from _mlperf_head(run, train_samples=run.every * run.batch * parts)
    clock = 0.0
    for n, (since, step) in enumerate(run.lines()):
        yield event("block_start", None, clock, first_epoch_num=1 + n / parts, epoch_count=1), -1
        yield event("eval_start", None, clock + 0.002, epoch_num=1 + n / parts), -1
        lasted = run.seconds(since, step)
        yield event("eval_stop", None, clock + lasted / 2, epoch_num=1 + n / parts), -1
        clock += lasted
        yield event("block_stop", None, clock, first_epoch_num=1 + n / parts), since


def mlperf_tokens(run: Training) -> Lines:
    """GPT-3: counts of tokens, in the names of samples and epochs."""
    said = {"submission_benchmark": "gpt3", "max_sequence_length": LENGTH}
    yield from _mlperf_head(run, **said, train_samples=10**9)
    clock = 0.0
    for n, (since, step) in enumerate(run.lines()):
        tokens = run.batch * LENGTH
        where = {"first_epoch_num": since * tokens, "epoch_count": (step - since) * tokens}
        yield event("block_start", None, clock, **where), -1
        clock += run.seconds(since, step)
        yield event("block_stop", None, clock, first_epoch_num=since * tokens), since
        clock += 30 if run.evaluated(n) else 0


def mlperf_iterations(run: Training) -> Lines:
    """Of UNet3D: lines of some epochs, each with the number of its steps."""
    yield from _mlperf_head(run, train_samples=3 * run.batch - 7)
    since, epochs = 0, run.steps // 3
    for epoch in range(1, epochs + 1):
        if epoch % 3 and epochs > 1:
            step = 3 * epoch
            speed = run.batch / run.mean(since, step)
            stats = {"throughput": speed, "iterations": 3, "loss_scale": 512.0}
            yield event("tracked_stats", stats, 2.0 + run.seconds(0, step), step=epoch), since
            since = step


def mlperf_epochs(run: Training) -> Lines:
    """A line for each epoch, numbered by epochs."""
    yield from _mlperf_head(run, train_samples=run.epoch * run.batch + run.batch // 2)
    clock = 0.0
    for epoch in range(run.steps // run.epoch):
        since, step = (run.begin + n * run.epoch for n in (epoch, epoch + 1))
        yield event("epoch_start", None, clock, epoch_num=epoch), -1
        clock += run.seconds(since, step)
        yield event("epoch_stop", None, clock, epoch_num=epoch), -1
        stats = {"throughput": run.batch / run.mean(since, step)}
        yield event("tracked_stats", stats, clock, step=epoch + 1), since
        clock += 0.5 if run.evaluates else 0


def by_pattern(run: Training) -> Lines:
    for since, step in run.lines():
        tokens = run.batch * LENGTH / run.mean(since, step)
        yield f"at {step:,}: tokens_per_second={tokens:,.1f}\n", since


def _examples(run: Training) -> float:
    return run.batch


def _tokens_of_one(run: Training) -> float:
    return run.batch * LENGTH / DEVICES


PATTERN = r"at (?P<step>[\d,]+): tokens_per_second=(?P<throughput>[\d,.]+)"
TRAINERS = {
    "megatron": Trainer("megatron", megatron),
    "nemo": Trainer("nemo", nemo),
    "nemo_1": Trainer("nemo", nemo_1),
    "torchtitan": Trainer("torchtitan", torchtitan, _tokens_of_one, states_time=False),
    "maxtext": Trainer("maxtext", maxtext, _tokens_of_one, by_step=True),
    "deepspeed": Trainer("deepspeed", deepspeed, _examples, states_time=False),
    "deepspeed_pipeline": Trainer("deepspeed_pipeline", deepspeed_pipeline, _examples),
    "huggingface": Trainer("huggingface", huggingface, smooth=True, by_step=True),
    "accelerate": Trainer("huggingface", accelerate, smooth=True, by_step=True),
    "paddle_nlp": Trainer("paddle", paddle_nlp, _examples),
    "paddle_clas": Trainer("paddle", paddle_clas, _examples, resumes=False),
    "paddle_trainer": Trainer("paddle_trainer", paddle_trainer, _examples),
    "tensorflow": Trainer("tensorflow", tensorflow, _examples),
    "slim": Trainer("tensorflow", slim),
    "time_history": Trainer("tensorflow_models", time_history, _examples),
    "keras": Trainer("keras", keras, resumes=False),
    "keras_bars": Trainer("keras", keras_bars, resumes=False),
    "pytorch_examples": Trainer("pytorch_examples", pytorch_examples, resumes=False),
    "metric_logger": Trainer("pytorch_examples", metric_logger, resumes=False),
    "gluon": Trainer("gluon", gluon, _examples, states_time=False, resumes=False),
    "gluon_detection": Trainer(
        "gluon", gluon_detection, _examples, states_time=False, resumes=False
    ),
    "oneflow": Trainer("oneflow", oneflow, _examples, states_time=False),
    "dllogger": Trainer("dllogger", dllogger, _examples, states_time=False),
    "dllogger_text": Trainer("dllogger", dllogger_text, _examples, states_time=False),
    "mlperf_steps": Trainer("mlperf", mlperf_steps),
    "mlperf_own_blocks": Trainer("mlperf", mlperf_own_blocks, resumes=False),
    "mlperf_blocks": Trainer("mlperf", mlperf_blocks, _examples),
    "mlperf_evaluations": Trainer("mlperf", mlperf_evaluations, _examples, resumes=False),
    "mlperf_jax": Trainer("mlperf", mlperf_jax, _examples, resumes=False),
    "mlperf_evaluated_epochs": Trainer("mlperf", mlperf_evaluated_epochs, _examples, resumes=False),
    "mlperf_parts_of_epochs": Trainer("mlperf", mlperf_parts_of_epochs, _examples, resumes=False),
    "mlperf_tokens": Trainer(
        "mlperf", mlperf_tokens, lambda run: run.batch * LENGTH, resumes=False
    ),
    "mlperf_iterations": Trainer(
        "mlperf", mlperf_iterations, _examples, states_time=False, resumes=False
    ),
    "mlperf_epochs": Trainer("mlperf", mlperf_epochs, _examples, states_time=False, resumes=False),
    "regex": Trainer(
        "regex",
        by_pattern,
        lambda run: run.batch * LENGTH,
        states_time=False,
        options={"pattern": PATTERN, "unit": "tokens"},
    ),
}
