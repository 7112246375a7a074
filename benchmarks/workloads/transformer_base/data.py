"""Synthetic pairs of sentences, table of positions, initial weights of the Transformer."""

import numpy

PADDING, BEGIN = 0, 1
"""Tokens that are not words."""
LABEL_SMOOTHING = 0.1
"""Share of a label that is spread evenly over the vocabulary (section 5.4 of the paper)."""


def batch(params, batch_size, random):
    """Return pairs of sentences: source, target (the decoder's input), labels, each (n, length).

    Words follow Zipf's law, which can be learnt. The labels are the target shifted by one word.
    """
    source = _sentences(params, batch_size, random)
    labels = _sentences(params, batch_size, random)
    target = numpy.where(labels == PADDING, PADDING, numpy.roll(labels, 1, axis=1))
    target[:, 0] = BEGIN
    named = {"source": source, "target": target, "labels": labels}
    return {name: value.astype("int64") for name, value in named.items()}


def _sentences(params, count, random):
    """Return word ids (count, length), padded at the end.

    A sentence has 1/2 to 1 of the length. Two sentences together have 3/2, so that all batches
    have the same number of words.
    """
    length = params["sequence_length"]
    above = random.randint(0, length // 4 + 1, count // 2)
    words = 3 * length // 4 + numpy.concatenate([above, -above, [0] * (count % 2)])
    drawn = random.zipf(1.3, (count, length)) % (params["vocabulary"] - 2) + 2
    return numpy.where(numpy.arange(length) < words[:, None], drawn, PADDING)


def positions(params):
    """Return the constant position embeddings (length, hidden), section 3.5 of the paper."""
    pairs = numpy.arange(0, params["hidden"], 2)
    angles = numpy.arange(params["sequence_length"])[:, None] / 10000 ** (pairs / params["hidden"])
    table = numpy.stack([numpy.sin(angles), numpy.cos(angles)], axis=2)
    return table.reshape(len(angles), -1).astype("float32")


def weights(params, random):
    """Name -> initial value; matrices are (in, out)."""
    named = {}
    hidden, inner = params["hidden"], params["inner"]

    def linear(name, width, out, bias=True):
        limit = (6.0 / (width + out)) ** 0.5  # Glorot and Bengio 2010
        named[name + ".weight"] = random.uniform(-limit, limit, (width, out))
        if bias:
            named[name + ".bias"] = numpy.zeros(out)

    def norm(name):
        named[name + ".weight"] = numpy.ones(hidden)
        named[name + ".bias"] = numpy.zeros(hidden)

    def attention(name):
        linear(name + ".query", hidden, hidden, bias=False)
        linear(name + ".key_value", hidden, 2 * hidden, bias=False)
        linear(name + ".attended", hidden, hidden, bias=False)
        norm(name + ".norm")

    def inner_layers(name):
        linear(name + ".widen", hidden, inner)
        linear(name + ".narrow", inner, hidden)
        norm(name + ".norm")

    table = (params["vocabulary"], hidden)
    named["words.weight"] = random.standard_normal(table) * hidden**-0.5
    for number in range(params["layers"]):
        encoder, decoder = "encoder.{}.".format(number), "decoder.{}.".format(number)
        attention(encoder + "own")
        inner_layers(encoder + "inner")
        attention(decoder + "own")
        attention(decoder + "source")
        inner_layers(decoder + "inner")
    return named
