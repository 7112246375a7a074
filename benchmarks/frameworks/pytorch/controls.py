"""Speed of devices without any model: matrix products, copies of memory, NCCL.

    python controls.py 7 [--device cpu --side 256 --copy-bytes 1048576]

Prints a JSON list of {"metric", "unit", "backend", "device", "values"}, values in 1e9/s. With
several GPUs it prints another list with NCCL's; the first list is there if NCCL fails or hangs.

    python controls.py 7 --rank 0 --world 2 --listen-range 20000-29999

reduces between the GPUs of several nodes, one process for each; this is one node's part. It speaks
as a rank of `agent.py allreduce` does, and says which library reduced: {"seconds", "bytes",
"backend"}. Rank 0 is where the others meet.
"""

import argparse
import functools
import json
import os
import signal
import sys
import threading
import time

import torch
from torch import distributed, multiprocessing

WARM_UP = 3

LIMIT_S = 150
"""Time limit of a part in an all-reduce between nodes."""


def durations(devices, work, values):
    """Return the seconds of `values` calls of `work`, each until these devices are idle."""
    found = []
    for number in range(WARM_UP + values):
        begin_s = time.perf_counter()
        work()
        for device in devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        if number >= WARM_UP:
            found.append(time.perf_counter() - begin_s)
    return found


def rates(devices, work, amount, values):
    """Return `amount` per second of `values` calls of `work`, in 1e9/s."""
    return [amount / seconds / 1e9 for seconds in durations(devices, work, values)]


TYPES = {"tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FIRST = {"tf32": (8, 0), "bf16": (8, 0), "fp16": (7, 0)}
"""Minimum compute capability with tensor cores for the type."""


def products(device, named, options):
    """Return the rates of matrix products on tensor cores, by precision."""
    found, side = [], 2 * options.side
    for precision, dtype in TYPES.items():
        if torch.cuda.get_device_capability(device) < FIRST[precision]:
            continue
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
        out, work = torch.empty_like(a), 2.0 * side**3
        values = rates([device], functools.partial(torch.mm, a, b, out=out), work, options.values)
        metric = "matrix_product_" + precision
        found.append(dict(named, metric=metric, unit="GFLOP/s", values=values))
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def between(devices, options):
    """Return the rate of NCCL's all-reduce between the GPUs, as bytes reduced per second."""
    tensors = [torch.zeros(options.copy_bytes // 4, device=device) for device in devices]
    work = functools.partial(torch.cuda.nccl.all_reduce, tensors)
    found = rates(devices, work, options.copy_bytes, options.values)
    named = {"metric": "all_reduce_in_node", "device": "gpus", "backend": nccl()}
    return dict(named, unit="GB/s", values=found)


def nccl():
    """Return NCCL's name and version."""
    return "nccl-" + ".".join(str(part) for part in torch.cuda.nccl.version())


def listening(ports):
    """Return a store to which other ranks connect, on the first free port of FIRST-LAST."""
    first, last = map(int, ports.split("-"))
    for port in range(first, last + 1):
        try:
            return distributed.TCPStore("localhost", port, None, True, wait_for_workers=False)
        except RuntimeError as error:
            problem = error
    sys.exit("no free port in {}: {}".format(ports, problem))


def end_with_controller(reduced):
    """End this process and its GPUs' processes when stdin ends before they have reduced.

    If a node has failed, NCCL's ranks on other nodes would otherwise keep their GPUs busy.
    """
    while os.read(0, 4096):
        pass
    if not reduced.is_set():
        os.killpg(0, signal.SIGKILL)


def between_nodes(options):
    """Run this node's part in an all-reduce between the GPUs of several nodes."""
    signal.alarm(LIMIT_S)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)
    reduced = threading.Event()
    gpus = torch.cuda.device_count() if options.device == "cuda" else 1
    store = listening(options.listen_range) if options.rank == 0 else None
    print(json.dumps({"port": store.port if store else 0}), flush=True)
    host, _, port = json.loads(sys.stdin.readline())[0].rpartition(":")
    meeting = host.strip("[]"), int(port)
    threading.Thread(target=end_with_controller, args=[reduced], daemon=True).start()
    store = store or distributed.TCPStore(*meeting)
    store.set("gpus {}".format(options.rank), str(gpus))
    counts = [int(store.get("gpus {}".format(node))) for node in range(options.world)]
    if not all(counts):
        sys.exit("nodes have {} usable GPUs".format(counts))
    first, ranks = sum(counts[: options.rank]), sum(counts)
    multiprocessing.spawn(one_of, (first, ranks, meeting, options), gpus)
    reduced.set()
    seconds = json.loads(store.get("seconds"))
    backend = nccl() if options.device == "cuda" else "gloo"
    print(json.dumps({"seconds": seconds, "bytes": options.copy_bytes, "backend": backend}))
    store.set("told {}".format(options.rank), "")
    if options.rank == 0:  # rank 0 runs the store
        store.wait(["told {}".format(node) for node in range(options.world)])


def one_of(local, first, ranks, meeting, options):
    """Run one process of the all-reduce; global rank 0 stores the slowest rank's durations."""
    signal.alarm(LIMIT_S)
    device, backend = torch.device("cpu"), "gloo"
    if options.device == "cuda":
        device, backend = torch.device("cuda", local), "nccl"
        torch.cuda.set_device(device)
    store = distributed.TCPStore(*meeting)
    own = distributed.PrefixStore("ranks", store)
    distributed.init_process_group(backend, store=own, rank=first + local, world_size=ranks)
    tensor = torch.zeros(options.copy_bytes // 4, device=device)
    work = functools.partial(distributed.all_reduce, tensor)
    seconds = torch.tensor(durations([device], work, options.values), device=device)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    if first + local == 0:
        store.set("seconds", json.dumps(seconds.tolist()))
    distributed.destroy_process_group()


def measure(device, where, options):
    """Return the control measurements of a device."""
    a, b = (torch.randn(options.side, options.side, device=device) for _ in range(2))
    out = torch.empty_like(a)
    flops = 2.0 * options.side**3
    source = torch.empty(options.copy_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    named = {"backend": "torch-{} {}".format(torch.__version__, device.type), "device": where}
    product = rates([device], lambda: torch.mm(a, b, out=out), flops, options.values)
    copied = rates([device], lambda: target.copy_(source), options.copy_bytes, options.values)
    found = [
        dict(named, metric="matrix_product", unit="GFLOP/s", values=product),
        dict(named, metric="memory_copy", unit="GB/s", values=copied),
    ]
    return found + (products(device, named, options) if device.type == "cuda" else [])


def main():
    """Print the list; if there is no list or no second one, the error says why."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("values", type=int, help="values of each control measurement")
    parser.add_argument("--device", default="cuda", help="torch's name of the devices (cuda)")
    parser.add_argument("--side", type=int, default=4096, help="of the square matrices (4096)")
    parser.add_argument("--copy-bytes", type=int, default=512 * 2**20, help="copied (512 MiB)")
    parser.add_argument("--rank", type=int, help="of this node, between the GPUs of several")
    parser.add_argument("--world", type=int, help="number of these nodes")
    parser.add_argument("--listen-range", help="ports that rank 0 may listen on: FIRST-LAST")
    options = parser.parse_args()
    if options.rank is not None:
        between_nodes(options)
        return
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
