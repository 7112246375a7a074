"""A training script as its users write it: it knows nothing of Nightbench.

It writes what PyTorch's examples write, as NVIDIA's Apex does it: the mean of the steps since the
last line, which says the same as the clock on a busy machine too. Where it is told the tokens of a
step it writes what torchtitan writes, TFLOP/s and MFU by a formula and a peak of its own. It breaks
where it is asked to.
"""

import argparse
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, required=True)
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--world-size", type=int, default=1)
parser.add_argument("--last", action="store_true", help="the last rank prints, as Megatron-LM's")
parser.add_argument("--steps", type=int, default=10**6)
parser.add_argument("--step-s", type=float, default=0.03)
parser.add_argument("--fault", default="none")
parser.add_argument("--tokens", type=int)
parser.add_argument("--parameters", type=float)
parser.add_argument("--peak-tflops", type=float)
parser.add_argument("--data", help="a file of digits")
options = parser.parse_args()

if options.data:
    with open(options.data, encoding="ascii") as file:
        int(file.read())

writer = options.world_size - 1 if options.last else 0
begin_s = line_s = time.perf_counter()
line = 0
for step in range(1, options.steps + 1):
    time.sleep(options.step_s)
    if step == 45:
        if options.fault == "raise":
            raise RuntimeError("out of coffee")
        if options.fault in ("end", "garbage"):
            break
        if options.fault == "hang":
            time.sleep(3600)
    if options.fault == "garbage":
        print(f"\x00 Segmentation of {step} images in progress", flush=True)
    elif step % 10 == 1 and options.rank == writer:
        now_s = time.perf_counter()
        took_s, mean_s = (now_s - line_s) / (step - line), (now_s - begin_s) / step
        line_s, line = now_s, step
        if options.fault == "lie":
            took_s /= 2
        if options.tokens:
            tps = options.tokens / took_s
            tflops = 6 * options.parameters * tps / 1e12
            print(
                f"step: {step:2d}  loss: 11.8  tps: {tps:,.0f}  tflops: {tflops:,.2f}  "
                f"mfu: {tflops / options.peak_tflops:.2%}",
                flush=True,
            )
            continue
        print(
            f"Epoch: [0][{step:5d}/1000000]\tTime {took_s:6.4f} ({mean_s:6.4f})\tLoss 6.9 (6.9)",
            flush=True,
        )
sys.exit(0)
