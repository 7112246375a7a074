"""Prints the graph that a trainer of mxnet makes in mixed precision, and the losses of some steps.

    python mxnet_gpu_symbol.py CODE job.json trainer-0 STEPS

CODE is the folder of the benchmarks. A CPU has no products in float16, so that no step runs there.
Prints JSON: `casts`, operator -> the types that its inputs are cast to (null for none), `losses`,
and `layout`, as the trainer tells it. A CPU has no convolutions with channels last either: these
and poolings have them first here, and nothing else.
"""

import collections
import json
import sys
import types

import mxnet
from mxnet.gluon.nn import conv_layers
from node_trainer import trainer_of


def casts(graph):
    """Operator -> types that its inputs are cast to."""
    nodes = json.loads(graph.tojson(remove_amp_cast=False))["nodes"]
    found = collections.defaultdict(set)
    for node in nodes:
        for number, *_ in node["inputs"]:
            given = nodes[number]
            cast = given["op"] == "amp_cast"
            found[node["op"]].add(given["attrs"]["dtype"] if cast else None)
    return {op: sorted(types, key=str) for op, types in found.items()}


def with_channels_first(block):
    """A class of layers computes with channels first what it is given with channels last."""
    plain = block.hybrid_forward

    def forward(self, F, images, **weights):
        self._kwargs["layout"] = "NCHW"
        kernels = {name: F.transpose(x, (0, 3, 1, 2)) for name, x in weights.items()}
        made = plain(self, F, F.transpose(images, (0, 3, 1, 2)), **kernels)
        return F.transpose(made, (0, 2, 3, 1))

    block.hybrid_forward = forward


def main():
    code, job, name, steps = sys.argv[1:]
    runtime = types.SimpleNamespace(device=mxnet.cpu(), store=None, horovod=None)
    trainer = trainer_of(code, job, name, "mxnet", runtime)
    layout = trainer.modes_used()["layout"]
    if layout == "channels_last":
        with_channels_first(conv_layers._Conv)
        with_channels_first(conv_layers._Pooling)
    for _ in range(int(steps)):
        trainer.step()
    graph = trainer.model(mxnet.sym.var("images"))
    print(json.dumps({"casts": casts(graph), "losses": trainer.losses(), "layout": layout}))


main()
