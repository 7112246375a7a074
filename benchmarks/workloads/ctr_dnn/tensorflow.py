"""CTR-DNN in TensorFlow 1 and 2."""

import tensorflow as tf


def connected(scope, name, x, width):
    """A fully connected layer."""
    weight = scope.parameter(name + ".weight", x.shape[1], width)
    return tf.matmul(x, weight) + scope.parameter(name + ".bias", width)


def model(params):
    """The network: from its weights and a batch's inputs to the logits of no click and click."""
    slots = ["slot{}".format(number) for number in range(params["sparse_slots"])]

    def logits(scope, batch):
        # The gradient of a gather is sparse: only the rows that a batch uses are sent.
        table = scope.parameter("table.weight", params["vocabulary"], params["embedding_size"])
        rows = tf.gather(table, tf.concat([batch[slot] for slot in slots], 1))
        rows = tf.reshape(rows, [rows.shape[0], len(slots) * params["embedding_size"]])
        x = tf.concat([rows, batch["dense"]], 1)
        for number, width in enumerate(params["hidden"]):
            x = tf.nn.relu(connected(scope, "hidden.{}".format(number), x, width))
        return connected(scope, "click", x, 2)

    return logits


def loss(model, batch):
    """Mean cross-entropy of a batch."""
    labels = tf.squeeze(batch["label"], 1)
    logits = tf.cast(model(batch), tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)
