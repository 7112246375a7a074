"""parse: show what Nightbench reads from the log of a training script."""

import json as jsonlib
import math
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import say, warn
from nightbench.config import load_catalog
from nightbench.config.commands import model_of
from nightbench.config.locations import benchmarks_folder
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model_flops import TRAINING
from nightbench.nodes.device_peaks import TERA, known_devices, peak_of

app = typer.Typer()

EXAMPLES = ("samples", "sequences", "examples", "images")


@app.command()
def parse(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Log format; a wrong name lists all formats.")
    ],
    file: Annotated[Path, typer.Argument(help="Log to read; - is standard input.")],
    warmup: Annotated[int, typer.Option(min=0, help="Number of warm-up steps to skip.")] = 20,
    pattern: Annotated[
        str | None,
        typer.Option(
            help="Regular expression for the format `regex`, with the named groups throughput or "
            "step_time, and optionally step and samples."
        ),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Unit of throughput, if the log has none: images, tokens.")
    ] = None,
    time_unit: Annotated[
        str | None, typer.Option(help="Unit of step time, if the log has none: s, ms, us.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Name of the log's metric that is the throughput.")
    ] = None,
    writer: Annotated[
        str | None, typer.Option(help="Prefix of the lines to read, such as 0: or [rank0].")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Trained model as WORKLOAD/SCALE, for example llama/8b. Shows TFLOP/s and MFU by "
            "the formulas of this workload next to the log's values."
        ),
    ] = None,
    sequence_length: Annotated[
        int | None, typer.Option(min=1, help="For --model. [default: that of the scale]")
    ] = None,
    devices: Annotated[
        int | None, typer.Option(min=1, help="For --model: devices, if the log states their sums.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="For the MFU: device name, as nvidia-smi prints it.")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="For the MFU: precision (fp32, tf32, bf16, fp16).")
    ] = "bf16",
    json: common.JsonOption = False,
) -> None:
    """Show what Nightbench reads from a training script's log: steps, values, skipped lines."""
    if model is None and (sequence_length or devices or device):
        raise UserError("--sequence-length, --devices and --device require --model")
    given = {
        "pattern": pattern,
        "unit": unit,
        "time_unit": time_unit,
        "metric": metric,
        "writer": writer,
    }
    options = {name: value for name, value in given.items() if value is not None}
    found = _read(format_, file, warmup, options)
    if model is not None:
        found["by_our_formula"] = _by_our_formula(
            found, model, sequence_length, devices, device, precision
        )
    if json:
        common.print_json(found)
        return
    say(f"{'standard input' if str(file) == '-' else file}: {found['title']}")
    say(f"{found['lines']} lines, {found['steps']}; {found['warmup_lines']} of the warm-up skipped")
    unit_said = f"{found['unit'] or 'units'}/s" + ("/device" if found["per_device"] else "")
    computed = {"samples_per_s"} if "global_batch_size" in found["others"] else set()
    for numbers, name, said in (
        (found["throughput"], "throughput", unit_said),
        (found["step_s"], "step time", "s"),
        *(
            (numbers, name, "from batch and step time" if name in computed else "as printed")
            for name, numbers in found["others"].items()
        ),
    ):
        if numbers:
            say(
                f"{name}: median {numbers['median']:.6g} {said} "
                f"({numbers['minimum']:.6g} to {numbers['maximum']:.6g}, {numbers['n']} lines)"
            )
    if model is not None:
        _say_flops(found["by_our_formula"])
    for why, count in found["left_out"].items():
        warn(f"warning: {count} {'line' if count == 1 else 'lines'} skipped: {why}")
    for why, count in found["skipped"].items():
        warn(f"{count} {'line' if count == 1 else 'lines'} {why}")
    for note in found["notes"]:
        warn(f"warning: {note}")


def _say_flops(ours: dict[str, Any]) -> None:
    mfu = f"no MFU: {ours.get('mfu_absent')}"
    if ours["mfu"] is not None:
        mfu = f"MFU {ours['mfu']:.1%} of {ours['peak_tflops']:g} TFLOP/s"
    say(
        f"by Nightbench's formula ({ours['model']}): "
        f"{ours['tflops_per_device']:.6g} TFLOP/s per device, {mfu}"
    )


def _read(format_: str, file: Path, warmup: int, options: dict[str, Any]) -> dict[str, Any]:
    """Read the log with the code that is shipped to the nodes, as it does there."""
    agent = benchmarks_folder() / "agent.py"
    argv = [sys.executable, str(agent), "parse", "--warmup", str(warmup)]
    piped = sys.stdin.buffer.read() if str(file) == "-" else None
    path = "/dev/stdin" if piped is not None else str(file)
    argv += ["--options", jsonlib.dumps(options), "--", format_, path]
    done = subprocess.run(argv, input=piped, capture_output=True, check=False)
    try:
        found: dict[str, Any] = jsonlib.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise UserError(f"{agent} parse failed: {said}") from None
    if "error" in found:
        raise UserError(found["error"])
    return found


# --- TFLOP/s and MFU by Nightbench's formulas ------------------------------------------------


def _by_our_formula(
    found: Mapping[str, Any],
    model: str,
    sequence_length: int | None,
    devices: int | None,
    device: str | None,
    precision: str,
) -> dict[str, Any]:
    """Return TFLOP/s and MFU per device of the median; `mfu_absent` says why there is no MFU."""
    precisions = known_devices()[0].keys() - {"device", "source"}
    if precision not in precisions:
        raise UserError(f"--precision: {one_of(precision, precisions)}")
    workload, _, scale = model.partition("/")
    params = {} if sequence_length is None else {"sequence_length": sequence_length}
    terms, length = model_of(load_catalog(), workload, scale or "full", params)
    rate = _examples_per_s_per_device(found, length, devices)
    flops = TRAINING * math.fsum(terms.values()) * rate
    peak = peak_of(device, precision, {})
    said = {
        "model": f"{workload} {scale or 'full'}" + (f", {length} tokens" if length else ""),
        "tflops_per_device": flops / TERA,
        "tokens_per_s_per_device": rate * length if length else None,
        "peak_tflops": None if peak is None else peak / TERA,
        "mfu": None if peak is None else flops / peak,
    }
    if peak is None:
        said["mfu_absent"] = (
            f"the peak FLOP/s of {device} at {precision} are unknown"
            if device
            else "no device is named (--device)"
        )
    elif flops > peak:
        said["mfu"] = None
        said["mfu_absent"] = (
            f"{flops / peak:.4g} at a peak of {peak / TERA:g} TFLOP/s is impossible; expected the "
            "log's own --model, --sequence-length, --devices, --device and --precision"
        )
    return said


def _examples_per_s_per_device(
    found: Mapping[str, Any], length: int | None, devices: int | None
) -> float:
    figures = {name: each["median"] for name, each in found["others"].items() if each}
    unit, per_device = found["unit"], found["per_device"]
    rates = []
    if found["throughput"] and (unit in EXAMPLES or unit == "tokens"):
        rates.append((found["throughput"]["median"], unit == "tokens", per_device))
    for name, tokens in (("tokens_per_s", True), ("samples_per_s", False)):
        for suffix in ("_per_device", ""):
            if name + suffix in figures:
                rates.append((figures[name + suffix], tokens, bool(suffix)))
    usable = [each for each in rates if length or not each[1]]
    if not usable:
        raise UserError("the log states no samples or tokens per second; expected one for --model")
    rate, tokens, per_device = next((each for each in usable if each[2]), usable[0])
    if not per_device:
        if devices is None:
            raise UserError("the log's values are the sum of all devices; expected --devices")
        rate /= devices
    return float(rate / length) if tokens and length else float(rate)
