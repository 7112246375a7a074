"""parse: show what Nightbench reads from the log of a training script."""

import json as jsonlib
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import say, warn
from nightbench.cli.parsed_flops import Trained, by_our_formula
from nightbench.config.locations import benchmarks_folder
from nightbench.core.errors import UserError

app = typer.Typer()


@app.command()
def parse(
    format_: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Log format; a wrong name lists all formats.")
    ],
    file: Annotated[Path, typer.Argument(help="Log to read; - is standard input.")],
    warmup: Annotated[
        int, typer.Option("--warmup", min=0, help="Number of warm-up steps to skip.")
    ] = 20,
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
        str | None,
        typer.Option(help="Prefix of the lines to read, such as 0: or [rank0]."),
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
        trained = Trained(model, sequence_length, devices, device, precision)
        found["by_our_formula"] = by_our_formula(found, trained)
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
