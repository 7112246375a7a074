"""Speed of devices without any model: matrix products, copies of memory, NCCL within the node.

    python controls.py 7 [--device cpu --side 256 --copy-bytes 1048576]

Prints a JSON list of {"metric", "unit", "backend", "device", "values"}, values in 1e9/s; with
several GPUs again with NCCL's, so that the first list is there where NCCL fails or hangs.
"""

import argparse
import functools
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


TYPES = {"tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FIRST = {"tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0)}
"""Least compute capability with tensor cores for it."""


def products(device, named, options):
    """Matrix products on tensor cores, by precision."""
    found, side = [], 2 * options.side
    for precision, dtype in TYPES.items():
        if torch.cuda.get_device_capability(device) < FIRST[precision]:
            continue
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
        out, work = torch.empty_like(a), 2.0 * side**3
        values = rates(device, functools.partial(torch.mm, a, b, out=out), work, options.values)
        metric = "matrix_product_" + precision
        found.append(dict(named, metric=metric, unit="GFLOP/s", values=values))
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def between(devices, options):
    """NCCL's all-reduce of so many bytes on each GPU, as bytes reduced per second."""
    tensors = [torch.zeros(options.copy_bytes // 4, device=device) for device in devices]
    found = []
    for number in range(WARM_UP + options.values):
        begin_s = time.perf_counter()
        torch.cuda.nccl.all_reduce(tensors)
        for device in devices:
            torch.cuda.synchronize(device)
        if number >= WARM_UP:
            found.append(options.copy_bytes / (time.perf_counter() - begin_s) / 1e9)
    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    named = {"metric": "all_reduce_in_node", "device": "gpus", "backend": "nccl-" + version}
    return dict(named, unit="GB/s", values=found)


def measure(device, where, options):
    """The controls of a device."""
    a, b = (torch.randn(options.side, options.side, device=device) for _ in range(2))
    out = torch.empty_like(a)
    flops = 2.0 * options.side**3
    source = torch.empty(options.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    named = {"backend": "torch-{} {}".format(torch.__version__, device.type), "device": where}
    product = rates(device, lambda: torch.mm(a, b, out=out), flops, options.values)
    copied = rates(device, lambda: target.copy_(source), float(options.copy_bytes), options.values)
    found = [
        dict(named, metric="matrix_product", unit="GFLOP/s", values=product),
        dict(named, metric="memory_copy", unit="GB/s", values=copied),
    ]
    return found + (products(device, named, options) if device.type == "cuda" else [])


def main():
    """Prints the list; the error says why there is none, or no more."""
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
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
        for device in devices:
            found += measure(device, "gpu-{}".format(device.index), options)
        if len(devices) > 1:
            print(json.dumps(found), flush=True)
            found.append(between(devices, options))
    else:
        sys.exit("torch {} finds no usable GPU".format(torch.__version__))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
