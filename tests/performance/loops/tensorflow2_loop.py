"""A TensorFlow 2 loop: a tf.function with a GradientTape and an optimizer of Keras."""

import functools
import os

import channels_last
import tensorflow as tf
from apis.tensorflow.scope import Scope


def build(given):
    """One step, and a wait for the device."""
    axes = {"compiler": ["none", "xla"], "execution": ["default", "eager"]}
    given.only(optimizer=["momentum", "adamw"], **axes)
    tf.config.threading.set_intra_op_parallelism_threads(int(os.environ.get("OMP_NUM_THREADS", 0)))
    for each in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(each, True)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    scope, network, params = Scope(), given.network("tensorflow"), given.params
    batch = {name: tf.constant(value) for name, value in channels_last.batch(given.batch).items()}
    model = functools.partial(network.model(params), scope)
    network.loss(model, batch)
    weights = list(scope.weights.values())
    for weight in weights:
        weight.assign(tf.random.normal(weight.shape, stddev=0.02))
    rate, decay = params["learning_rate"], params["weight_decay"]
    if params["optimizer"] == "momentum":
        optimizer = tf.keras.optimizers.SGD(rate, momentum=params["momentum"], weight_decay=decay)
    else:
        optimizer = tf.keras.optimizers.AdamW(
            rate, decay, params["beta1"], params["beta2"], params["epsilon"]
        )
    optimizer.build(weights)

    def train(batch):
        with tf.GradientTape() as tape:
            loss = network.loss(model, batch)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    if given.case["execution"] != "eager":
        train = tf.function(train, jit_compile=given.case["compiler"] == "xla")
    elif given.case["compiler"] == "xla":
        given.only(optimizer=["momentum", "adamw"], execution=["eager"])
    last = [None]

    def step():
        last[0] = train(batch)

    return step, lambda: float(last[0].numpy())
