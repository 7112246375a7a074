"""Training in PaddlePaddle 2: eager or as a graph, and with servers as a static program."""

import numpy
import paddle
from apis.paddle.program_flops import count_step
from apis.paddle.servers import rows_pulled
from apis.paddle.trainer import OPTIMIZERS, EagerTrainer, trainable
from base_trainer import Base, DoesNotFit, expect_precision, optimizer_of
from paddle.distributed import fleet
from paddle.distributed.communicator import Communicator
from paddle.distributed.ps.the_one_ps import BarrierTable
from paddle.distributed.ps.utils.public import get_the_one_recv_context

GEO_STEPS = 20
"""Number of steps after which Geo-SGD exchanges its updates."""

GFLAGS = (
    "-max_body_size=314217728 -bthread_concurrency=40 -socket_max_unwritten_bytes=2048000000 "
    "-max_connection_pool_size=1950 -pserver_push_dense_merge_limit=0"
)
"""The client's own flags, and a last one that sends each dense gradient. By default the client
collects 13 gradients before it sends any: a window of fewer steps would train no dense weight."""


def Trainer(context, network, data):
    """The trainer of a case."""
    served = context.case["strategy"] == "parameter_server"
    return (GraphTrainer if served else EagerTrainer)(context, network, data)


def _start_geo_in_turns():
    """Make trainer 0 send its weights to the servers before the other trainers fetch them.

    By default, this version makes all trainers wait at a barrier of the servers, once per table.
    A waiting trainer continues only when it sees the barrier empty. On a busy node, the other
    trainer is at the next barrier by then, and both wait forever. The servers' barrier is
    therefore set to one trainer, which never waits, and gloo's barrier keeps the order.
    """
    set_table, init_params = BarrierTable._set, Communicator.init_params

    def for_one(table, proto):
        set_table(table, proto)
        proto.common.trainer_num = 1

    def in_turn(communicator, context):
        gives = fleet.worker_index() == 0
        if not gives:
            fleet.util.barrier()
        init_params(communicator, context)
        if gives:
            fleet.util.barrier()

    BarrierTable._set, Communicator.init_params = for_one, in_turn


def exchange_on_cpu(program):
    """Make the operators that communicate with servers run on the CPU, on copies of gradients.

    On a GPU's gradients, they would send memory that was never filled (PushDenseVarsAsync in
    fleet.cc, distributed_push_sparse_op.h).

    Returns:
        Names of the tables whose rows are on the servers.
    """
    block = program.global_block()
    for place in reversed(range(len(block.ops))):
        op = block.ops[place]
        if op.type == "send":
            names, rename = op.input("X"), op._rename_input
        elif op.type == "distributed_push_sparse":
            names, rename = op.output("Outputs"), op._rename_output
        else:
            continue
        op._set_attr("op_device", "cpu")
        for name in names:
            gradient = block.var(name)
            copy = block.create_var(name=name + "@CPU", shape=gradient.shape, dtype=gradient.dtype)
            rename(name, copy.name)
            block._insert_op(
                place,
                type="memcpy_d2h",
                inputs={"X": gradient},
                outputs={"Out": copy},
                attrs={"dst_place_type": 0},
            )
    lookups = [op for op in block.ops if op.type == "distributed_lookup_table"]
    for op in lookups:
        op._set_attr("op_device", "cpu")
    return {name for op in lookups for name in op.input("W")}


class GraphTrainer(Base):
    """The static program of a trainer, or of a parameter server."""

    def __init__(self, context, network, data):
        super().__init__(context, network, data)
        paddle.enable_static()
        params, serves = context.params, context.role == "pserver"
        self.distributed = context.case["strategy"] == "parameter_server"
        inputs = {
            name: paddle.static.data(name, [None, *value.shape[1:]], str(value.dtype))
            for name, value in self.example().items()
        }
        self._build(network, inputs)
        optimizer = optimizer_of(params, OPTIMIZERS)(params, self.model)
        if self.distributed:
            optimizer = fleet.distributed_optimizer(optimizer, self._strategy())
        optimizer.minimize(self.loss)
        if serves:
            return

        gpu = context.device is not None
        self.place = paddle.CUDAPlace(0) if gpu else paddle.CPUPlace()
        self.executor = paddle.static.Executor(self.place)
        self.executor.run(paddle.static.default_startup_program())
        self.program = paddle.static.default_main_program()
        tables = exchange_on_cpu(self.program) if self.distributed and gpu else ()
        for name, value in self.made.items():
            held = paddle.CPUPlace() if self.variables[name] in tables else self.place
            self._tensor(name).set(value, held)
        if self.distributed:
            # Trainer 0 sends its weights to the servers; the other trainers fetch them.
            scope = self._copy_on_cpu() if gpu else paddle.static.global_scope()
            described = fleet.fleet._runtime_handle.ps_desc_builder
            build = described.build_worker_desc
            described.build_worker_desc = lambda: '{}\ninit_gflags: "{}"\n'.format(build(), GFLAGS)
            fleet.init_worker([scope])
        self.dense = self._dense_of_servers() if self.distributed else None
        self.batches = self.feed(dict)

    def _build(self, network, inputs):
        self.model = network.model(self.context.params)
        self.loss = network.loss(self.model, inputs)
        self.variables = {name: weight.name for name, weight in trainable(self.model).items()}
        self.made = self.initial_weights(
            {name: weight.shape for name, weight in trainable(self.model).items()}
        )
        # Servers draw the rows of sparse tables themselves, uniformly, as the startup program says.
        ranges = {self.variables[name]: float(abs(x).max()) for name, x in self.made.items()}
        for op in paddle.static.default_startup_program().global_block().ops:
            if op.type == "uniform_random":
                limit = ranges[op.output("Out")[0]]
                op._set_attr("min", -limit)
                op._set_attr("max", limit)

    def _strategy(self):
        strategy = fleet.DistributedStrategy()
        strategy.a_sync = True
        if self.context.case["sync"] == "geo":
            _start_geo_in_turns()
            strategy.a_sync_configs = {"k_steps": GEO_STEPS}
            return strategy
        sparse = {
            name + ".weight"
            for name, layer in self.model.named_sublayers()
            if isinstance(layer, paddle.nn.Embedding) and layer._sparse
        }
        params = self.context.params
        if sparse and params["optimizer"] != "sgd":
            raise DoesNotFit(
                "found optimizer {!r}; expected sgd: for sparse rows, asynchronous servers of "
                "paddle2 have no other optimizer that other lines have".format(params["optimizer"])
            )
        for name in sparse:
            table = strategy.sparse_table_configs.add()
            table.table_name = self.variables[name]
            table.accessor.ctr_accessor_param.zero_init = False
            for rule in (table.accessor.embed_sgd_param, table.accessor.embedx_sgd_param):
                # Without a name, this version uses Adam, whichever optimizer is set. Servers
                # get the gradient of the mean loss multiplied by the batch's size.
                rule.name = "SparseNaiveSGDRule"
                rule.naive.learning_rate = params["learning_rate"] / self.context.batch_size
                rule.naive.initial_range = float(abs(self.made[name]).max())
        return strategy

    def _dense_of_servers(self):
        """Return a function that fetches the dense weights; None for Geo-SGD, which fetches itself.

        This version fetches them only in training on a Dataset. Otherwise trainers would keep the
        dense weights that they started with.
        """
        if self.context.case["sync"] == "geo":
            return None
        servers = fleet.fleet._runtime_handle
        names = get_the_one_recv_context(servers.context)
        (scope,) = servers.scopes
        own = paddle.static.global_scope()

        def fetch():
            pulled = servers._pull_all_dense(servers.scopes, servers._send_ctx, names)
            if scope is not own:
                for name in pulled:
                    tensor = scope.find_var(name).get_tensor()
                    own.find_var(name).get_tensor()._copy_from(tensor, self.place)

        return fetch

    def _copy_on_cpu(self):
        """Return a scope with the weights on the CPU: servers skip weights on a GPU (fleet.cc)."""
        scope = paddle.static.Scope()
        for name, value in self.made.items():
            scope.var(self.variables[name]).get_tensor().set(value, paddle.CPUPlace())
        return scope

    def _tensor(self, name):
        return paddle.static.global_scope().find_var(self.variables[name]).get_tensor()

    def serve(self):
        """Run this parameter server until it is ended; it does not end with its trainers."""
        fleet.init_server()
        fleet.run_server()

    def step(self):
        """Run forward, backward and exchange with servers; return when the executor is done."""
        if self.dense:
            self.dense()
        feed = next(self.batches)
        (loss,) = self.executor.run(self.program, feed=feed, fetch_list=[self.loss])
        self.kept.append(loss)

    def count_step(self):
        """Run one more step, and count the products of the program."""
        count_step(self, self.program)

    def weights(self):
        """Return name -> value of all trainable parameters, as this trainer sees them.

        For a table that only the servers have, these are the rows of the window's first batch, once
        that batch is known.
        """
        if self.dense:
            self.dense()
        held = {name: numpy.array(self._tensor(name)) for name in self.variables}
        if self.distributed and self.window_batch:
            names = {variable: name for name, variable in self.variables.items()}
            pulled = rows_pulled(self.program.clone(), self.executor.run, self.window_batch)
            held.update((names[variable], rows) for variable, rows in pulled.items())
        return held

    def precision_proof(self):
        """Return the precision by the parameters' types, in which a graph on the CPU computes."""
        types = {str(weight.dtype) for weight in self.model.parameters()}
        found = "fp32" if types == {"paddle.float32"} else ", ".join(sorted(types))
        return expect_precision(self.context.precision, found)
