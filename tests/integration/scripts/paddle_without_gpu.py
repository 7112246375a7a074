"""Appended to a copy of paddle2's runtime.py: what its trainers take for a GPU is the CPU.

A program whose gradients a GPU's trainers would send from where they lie does not begin.
"""

import paddle
from paddle.distributed import fleet

init_worker = fleet.init_worker


def init_worker_of_gpu(scopes):
    """Begins where only copies on the CPU are sent, and weights are given from there."""
    assert scopes != [paddle.static.global_scope()]
    ops = paddle.static.default_main_program().global_block().ops
    copies = {name for op in ops if op.type == "memcpy_d2h" for name in op.output_arg_names}
    sent = {}
    for op in ops:
        if op.type in ("send", "distributed_push_sparse"):
            assert op.attr("op_device") == "cpu"
            sent[op.type] = op.input("X") if op.type == "send" else op.output("Outputs")
    assert len(sent) == 2
    for names in sent.values():
        assert set(names) <= copies, f"gradients are sent from a GPU: {names}"
    init_worker(scopes)


fleet.init_worker = init_worker_of_gpu
paddle.CUDAPlace = lambda index: paddle.CPUPlace()
paddle.set_device = lambda name: None
paddle.device.cuda.synchronize = lambda: None
paddle.device.cuda.max_memory_allocated = lambda: 0
