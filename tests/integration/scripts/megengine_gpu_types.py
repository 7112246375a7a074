"""Prints the types that a trainer of megengine computes in, and the losses of some steps.

    python megengine_gpu_types.py CODE job.json trainer-0 STEPS

CODE is the folder of the benchmarks. On a CPU float16 has no products that are worth anything: a
forward pass tells the types alone, and steps are run where no type is cast. Prints JSON: `types`,
layer -> types of its outputs; `loss`; `weights`; `losses`.
"""

import collections
import json
import sys

import megengine
from megengine import module
from node_trainer import trainer_of


def main():
    code, job, name, steps = sys.argv[1:]
    megengine.set_default_device("cpux")
    trainer = trainer_of(code, job, name, "megengine")
    types = collections.defaultdict(set)
    for layer in trainer.model.modules():
        if isinstance(layer, (module.Conv2d, module.Linear)):
            layer.register_forward_hook(
                lambda self, given, made: types[type(self).__name__].add(str(made.dtype))
            )
    values = next(trainer.batches)
    batch = {name: values[number] for number, name in enumerate(trainer.names)}
    with trainer.autocast():
        loss = trainer.network.loss(trainer.model, batch)
    for _ in range(int(steps)):
        trainer.step()
    print(
        json.dumps(
            {
                "types": {layer: sorted(each) for layer, each in types.items()},
                "loss": str(loss.dtype),
                "weights": sorted({str(x.dtype) for x in trainer.model.parameters()}),
                "losses": trainer.losses(),
            }
        )
    )


main()
