"""Prints the program that a trainer of paddle1 makes for a GPU, where there is none.

    python fluid_gpu_program.py CODE job.json trainer-0

CODE is the folder of the benchmarks. Fluid makes the whole program before it runs any of it: what
needs a device, running it and reading its variables, is replaced. Prints JSON: `operators`, type ->
its output types; `precision` and `modes`, what the trainer itself says; `ranks`, among which
gradients are summed.
"""

import collections
import importlib
import json
import os
import sys

CODE, JOB, NAME = sys.argv[1:]
sys.path[:0] = [CODE]

import rank  # noqa: E402

with open(JOB) as stream:
    JOB = json.load(stream)
WORKLOAD = os.path.join(CODE, "workloads", JOB["case"]["workload"])
FRAMEWORK = os.path.join(CODE, "frameworks", JOB["case"]["framework"])
sys.path[:0] = [FRAMEWORK]


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Tensor:
    def set(self, value, place):
        """A variable of a program that does not run."""


def main():
    with open(os.path.join(WORKLOAD, "spec.json")) as stream:
        spec = json.load(stream)
    context = rank.Context(JOB, NAME, {"ports": JOB["ports"]}, None, spec)
    from paddle import fluid
    from paddle.fluid.incubate.fleet import collective
    from paddle.fluid.incubate.fleet.base import role_maker

    if context.grouped:
        collective.fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    fluid.CUDAPlace = lambda index: fluid.CPUPlace()
    fluid.Executor.run = lambda *args, **named: None
    trainer = load(os.path.join(FRAMEWORK, "trainer.py")).Trainer
    trainer._tensor = staticmethod(lambda name: Tensor())
    data = load(os.path.join(WORKLOAD, "data.py"))
    made = trainer(context, load(os.path.join(WORKLOAD, "fluid.py")), data)
    types = {
        value: name
        for name, value in vars(fluid.core.VarDesc.VarType).items()
        if isinstance(value, fluid.core.VarDesc.VarType)
    }
    strategy = fluid.BuildStrategy()
    found = collections.defaultdict(set)
    for program in (fluid.default_startup_program(), fluid.default_main_program()):
        for block in program.blocks:
            for op in block.ops:
                for name in op.output_arg_names:
                    variable = block._find_var_recursive(name)
                    is_tensor = variable is not None and variable.type in (
                        fluid.core.VarDesc.VarType.LOD_TENSOR,
                        fluid.core.VarDesc.VarType.SELECTED_ROWS,
                    )
                    found[op.type].add(types[variable.dtype] if is_tensor else "")
    print(
        json.dumps(
            {
                "operators": {op: sorted(each) for op, each in found.items()},
                "precision": made.precision_proof(),
                "modes": made.modes_used(),
                "ranks": getattr(made.program, "_build_strategy", strategy).num_trainers,
            }
        )
    )


main()
