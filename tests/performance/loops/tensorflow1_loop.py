"""A TensorFlow 1 loop: a graph, an optimizer of its own, and session.run."""

import functools
import os

import channels_last
import tensorflow as tf
from apis.tensorflow.scope import Scope


class GraphScope(Scope):
    """Collects the updates of running averages, which a step has to run."""

    def __init__(self):
        super().__init__()
        self.updates = []

    def average(self, name, value):
        """Follows a value over the steps."""
        self.updates.append(super().average(name, value))


def build(given):
    """One step, and a wait for the device."""
    given.only(optimizer=["momentum", "adamw"])
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    tf.compat.v1.enable_resource_variables()
    tf.compat.v1.enable_v2_tensorshape()
    scope, network, params = GraphScope(), given.network("tensorflow"), given.params
    batch = channels_last.batch(given.batch)
    inputs = {name: tf.compat.v1.placeholder(x.dtype, x.shape) for name, x in batch.items()}
    loss = network.loss(functools.partial(network.model(params), scope), inputs)
    weights = list(scope.weights.values())
    gradients = [tf.convert_to_tensor(each) for each in tf.gradients(loss, weights)]
    rate, decay = params["learning_rate"], params["weight_decay"]
    if params["optimizer"] == "momentum":
        optimizer = tf.compat.v1.train.MomentumOptimizer(rate, params["momentum"])
        gradients = [gradient + decay * w for gradient, w in zip(gradients, weights)]
        first = []
    else:
        optimizer = tf.compat.v1.train.AdamOptimizer(
            rate, params["beta1"], params["beta2"], params["epsilon"]
        )
        first = [w.assign_sub(rate * decay * w) for w in weights if len(w.shape) > 1]
    with tf.control_dependencies([*gradients]):
        decayed = tf.group(*first)
    with tf.control_dependencies([decayed]):
        update = optimizer.apply_gradients(zip(gradients, weights))
    train = tf.group(update, *scope.updates)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=int(os.environ.get("OMP_NUM_THREADS", 0))
    )
    config.gpu_options.allow_growth = True
    session = tf.compat.v1.Session(config=config)
    session.run(tf.compat.v1.global_variables_initializer())
    session.run([weight.assign(tf.random.normal(weight.shape, stddev=0.02)) for weight in weights])
    run = session.make_callable([loss, train], list(inputs.values()))
    values, last = [batch[name] for name in inputs], [None]

    def step():
        last[0], _ = run(*values)

    return step, lambda: float(last[0])
