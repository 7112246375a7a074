"""Speed of each device without any model: a matrix product and a copy of its memory.

    python controls.py 7 [--device cpu --side 256 --copy-bytes 1048576]

Prints a JSON list of {"metric", "unit", "backend", "device", "values"}, values in 1e9/s.
"""

import argparse
import json
import sys
import time

import torch

WARM_UP = 3


def rates(device, work, amount, values):
    """`amount` / duration of one call of `work`, in 1e9/s, so many times."""
    found = []
    for number in range(WARM_UP + values):
        begin_s = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if number >= WARM_UP:
            found.append(amount / (time.perf_counter() - begin_s) / 1e9)
    return found


def measure(device, where, options):
    """Both controls of a device."""
    a, b = (torch.randn(options.side, options.side, device=device) for _ in range(2))
    out = torch.empty_like(a)
    flops = 2.0 * options.side**3
    source = torch.empty(options.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    named = {"backend": "torch-{} {}".format(torch.__version__, device.type), "device": where}
    product = rates(device, lambda: torch.mm(a, b, out=out), flops, options.values)
    copied = rates(device, lambda: target.copy_(source), float(options.copy_bytes), options.values)
    return [
        dict(named, metric="matrix_product", unit="GFLOP/s", values=product),
        dict(named, metric="memory_copy", unit="GB/s", values=copied),
    ]


def main():
    """Prints the list; the exit code's text says why there is none."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("values", type=int, help="measurements of each control")
    parser.add_argument("--device", default="cuda", help="torch's name of the devices (cuda)")
    parser.add_argument("--side", type=int, default=4096, help="of the square matrices (4096)")
    parser.add_argument("--copy-bytes", type=int, default=512 * 2**20, help="copied (512 MiB)")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    if options.device != "cuda":
        found = measure(torch.device(options.device), options.device, options)
    elif torch.cuda.is_available():
        found = []
        for index in range(torch.cuda.device_count()):
            found += measure(torch.device("cuda", index), "gpu-{}".format(index), options)
    else:
        sys.exit("torch {} finds no usable GPU".format(torch.__version__))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
