"""Training in Fluid: a static graph, alone, with NCCL between ranks, or with parameter servers."""

import numpy
from apis.paddle.program_flops import count_step
from apis.paddle.servers import rows_pulled
from base_trainer import Base, expect_precision, optimizer_of
from frameworks.paddle1.lost_wakeup import keep_awake
from paddle import fluid
from paddle.fluid.incubate.fleet import collective
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
    distributed_strategy,
    fleet,
)


def decay(params):
    """Return the weight decay, which is added to the gradient of every parameter; None without."""
    rate = params.get("weight_decay", 0.0)
    return fluid.regularizer.L2DecayRegularizer(rate) if rate else None


class AdamW(fluid.optimizer.Adam):
    """Adam, with decoupled decay of matrices (Loshchilov and Hutter 2017, arXiv:1711.05101).

    Fluid's own AdamW is a second `minimize`, which mixed precision does not call. Fluid's kernel of
    Adam adds epsilon before the bias correction, the paper after it: its first steps are smaller.
    """

    def __init__(self, params):
        super().__init__(
            params["learning_rate"], params["beta1"], params["beta2"], params["epsilon"]
        )
        self.kept_share = 1.0 - params["learning_rate"] * params["weight_decay"]

    def _append_optimize_op(self, block, param_and_grad):
        weight = param_and_grad[0]
        if len(weight.shape) > 1:
            block.append_op(
                type="scale",
                inputs={"X": [weight]},
                outputs={"Out": [weight]},
                attrs={"scale": self.kept_share},
            )
        return super()._append_optimize_op(block, param_and_grad)


OPTIMIZERS = {
    "sgd": lambda params: fluid.optimizer.SGD(
        params["learning_rate"], regularization=decay(params)
    ),
    "momentum": lambda params: fluid.optimizer.Momentum(
        params["learning_rate"], params["momentum"], regularization=decay(params)
    ),
    "adam": lambda params: fluid.optimizer.Adam(
        params["learning_rate"], params["beta1"], params["beta2"], params["epsilon"]
    ),
    "adamw": AdamW,
}
"""Name -> maker from the workload's parameters."""

FIRST_SCALE = 2.0**15
"""Initial loss scale of fp16; it is halved if gradients overflow, and doubled now and then."""

SPARSITY = (0.75, 0.9375, 0.984375, 0.996, 0.999)
"""Sparsities while gradient compression warms up (Lin et al. 2018, arXiv:1712.01887)."""

factory = distributed_strategy.StrategyFactory
STRATEGIES = {
    "sync": factory.create_sync_strategy,
    "async": factory.create_async_strategy,
    "half_async": factory.create_half_async_strategy,
    "geo": lambda: factory.create_geo_strategy(20),
}
"""Value of `sync` -> maker of its strategy; Geo-SGD exchanges its updates every 20 steps."""


class Trainer(Base):
    """The program of one trainer or parameter server."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        params, serves = context.params, context.role == "pserver"
        self.distributed = context.case["strategy"] == "parameter_server"
        inputs = {
            name: fluid.data(name, [None, *value.shape[1:]], str(value.dtype))
            for name, value in self.example().items()
        }
        self.loss = network.loss(network.model(params), inputs)
        # Fluid counts batch-norm statistics as parameters too.
        parameters = fluid.default_main_program().all_parameters()
        trainable = [weight for weight in parameters if weight.trainable]
        self.made = self.initial_weights({weight.name: weight.shape for weight in trainable})

        optimizer = self._optimizer(params)
        if self.distributed:
            strategy = STRATEGIES[context.case["sync"]]()
            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        elif context.grouped:
            optimizer = collective.fleet.distributed_optimizer(optimizer, self._strategy())
        elif context.precision == "fp16":
            optimizer = fluid.contrib.mixed_precision.decorate(
                optimizer, init_loss_scaling=FIRST_SCALE, use_dynamic_loss_scaling=True
            )
        optimizer.minimize(self.loss)
        if serves:
            return

        gpu = context.device is not None
        self.place = fluid.CUDAPlace(0) if gpu else fluid.CPUPlace()
        self.executor = fluid.Executor(self.place)
        if self.distributed:
            fleet.init_worker()
            if context.case["sync"] in ("sync", "half_async"):
                keep_awake(fleet._communicator)
            # Fetches the servers' weights: all trainers have them before any trainer starts.
            self.executor.run(fleet.startup_program)
            context.runtime.barrier()
            self.program = fleet.main_program
            if context.case["sync"] != "sync":
                self.program = fluid.CompiledProgram(self.program).with_data_parallel(
                    loss_name=self.loss.name,
                    build_strategy=strategy.get_build_strategy(),
                    exec_strategy=strategy.get_execute_strategy(),
                )
        else:
            self.executor.run(fluid.default_startup_program())
            grouped = context.grouped
            self.program = (
                collective.fleet.main_program if grouped else fluid.default_main_program()
            )
            for name, value in self.made.items():
                self._tensor(name).set(value, self.place)
        self.batches = self.feed(dict)

    def _optimizer(self, params):
        """Return the workload's optimizer; for compressed gradients, momentum with DGC."""
        if self.context.case["compression"] != "dgc":
            return optimizer_of(params, OPTIMIZERS)(params)
        last = self.context.case["sparsity"]
        return fluid.optimizer.DGCMomentumOptimizer(
            params["learning_rate"],
            params["momentum"],
            rampup_begin_step=0,
            rampup_step=len(SPARSITY),
            sparsity=list(SPARSITY) if last is None else [last],
            regularization=decay(params),
        )

    def _strategy(self):
        """Return the collective strategy: NCCL sums gradients, which Fluid groups."""
        strategy = collective.DistributedStrategy()
        strategy.mode = "nccl2"
        tuning = self.context.case.get("tuning")
        strategy.nccl_comm_num = 2 if tuning == "nccl_comm_num_2" else 1
        if tuning == "hierarchical_allreduce":
            strategy.use_hierarchical_allreduce = True
            of_a_node = self.context.case["devices_per_node"]
            strategy.hierarchical_allreduce_inter_nranks = of_a_node
        strategy.fuse_all_reduce_ops = True
        strategy.use_amp = self.context.precision == "fp16"
        strategy.amp_loss_scaling = FIRST_SCALE
        return strategy

    def modes_used(self):
        """Return how gradients are summed, by the operator that makes NCCL's communicators."""
        if self.context.case.get("tuning", "default") == "default":
            return {}
        (made,) = (
            op
            for op in fluid.default_startup_program().global_block().ops
            if op.type == "gen_nccl_id"
        )
        found = {(1, True): "hierarchical_allreduce", (2, False): "nccl_comm_num_2"}
        used = made.attr("nccl_comm_num"), made.attr("use_hierarchical_allreduce")
        return {"tuning": found.get(used, "default")}

    @staticmethod
    def _tensor(name):
        return fluid.global_scope().find_var(name).get_tensor()

    def serve(self):
        """Run this parameter server until it is ended.

        Fluid 1.8's servers do not end with their trainers. Its launcher ends them, and so does the
        agent, after all trainers of the gang are done.
        """
        fleet.init_server()
        # With several servers large parameters are cut into blocks of rows.
        endpoint = fleet.server_endpoints()[fleet.server_index()]
        split = fleet._transpiler.vars_overview
        for held in split.get_distributed_vars_by_ep(endpoint):
            if held.origin.name not in self.made:
                continue  # the optimizer's own
            shape = held.slice.shape
            value = self.made[held.origin.name].ravel()[held.offset :][: numpy.prod(shape)]
            self._tensor(held.slice.name).set(value.reshape(shape), fluid.CPUPlace())
        fleet.run_server()

    def step(self):
        """Run forward, backward and exchange with servers; return when the executor is done."""
        feed = next(self.batches)
        (loss,) = self.executor.run(self.program, feed=feed, fetch_list=[self.loss.name])
        self.kept.append(loss)

    def count_step(self):
        """Run one more step, and count the products of the program; not between GPUs."""
        if self.distributed or not self.context.grouped:
            count_step(self, fleet.main_program if self.distributed else self.program)

    def weights(self):
        """Return name -> value of all parameters, as this trainer sees them.

        For a table that only the servers have, these are the rows of the window's first batch, once
        that batch is known.
        """
        held = {name: numpy.array(self._tensor(name)) for name in self.made}
        if self.distributed and self.window_batch:
            held.update(
                rows_pulled(fleet.main_program.clone(), self.executor.run, self.window_batch)
            )
        return held

    def precision_proof(self):
        """Return the precision by the variables' types; mixed precision adds FP16 variables."""
        names = ("FP16", "FP32", "FP64")
        types = {
            name
            for variable in fluid.default_main_program().list_vars()
            if variable.type == fluid.core.VarDesc.VarType.LOD_TENSOR
            for name in names
            if variable.dtype == getattr(fluid.core.VarDesc.VarType, name)
        }
        found = {("FP32",): "fp32", ("FP16", "FP32"): "fp16"}.get(tuple(sorted(types)))
        return expect_precision(self.context.precision, found or ", ".join(sorted(types)))
