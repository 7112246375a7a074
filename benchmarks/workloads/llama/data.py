"""Packed sequences, table of rotations, initial weights of Llama."""

import numpy
from readers import text

EPSILON = 1e-5
"""Epsilon of the norms, as in the authors' code."""


def batch(params, batch_size, random):
    """Return sequences without padding: tokens and labels, each (n, length).

    Tokens follow Zipf's law, which can be learnt. The labels are the tokens shifted by one.
    """
    shape = (batch_size, params["sequence_length"] + 1)
    return _shifted(random.zipf(1.3, shape) % params["vocabulary"])


def read(params, batch_size, part, random):
    """Yield batches of a text corpus, in the form of `batch`.

    Text continues in the next document after a separator, so that nothing is padded.
    """
    corpus = text.Corpus(part, params["vocabulary"])
    length = params["sequence_length"] + 1
    while True:
        yield _shifted(corpus.take(batch_size * length).reshape(batch_size, length))


def _shifted(tokens):
    named = {"tokens": tokens[:, :-1], "labels": tokens[:, 1:]}
    return {name: numpy.ascontiguousarray(value, "int64") for name, value in named.items()}


def rotations(params):
    """Return cosines and sines of the angles by position, (2, length, size of a head / 2).

    These are the rotary positions of Su et al. 2021 (arXiv:2104.09864). The first half of a head is
    rotated with the second half.
    """
    size = params["hidden"] // params["heads"]
    frequencies = params["rotary_base"] ** -(numpy.arange(0, size, 2) / size)
    angles = numpy.arange(params["sequence_length"])[:, None] * frequencies
    return numpy.stack([numpy.cos(angles), numpy.sin(angles)]).astype("float32")


def weights(params, random):
    """Name -> initial value; matrices are (in, out), the table of embeddings (rows, hidden).

    A mixture of experts has SwiGLU's matrices of all experts as one, (experts, in, out).
    """
    named = {}
    hidden, inner = params["hidden"], params["inner"]
    experts = (params["experts"],) if "experts" in params else ()
    shared = hidden * params["key_value_heads"] // params["heads"]

    def matrix(name, *shape):
        named[name + ".weight"] = (random.standard_normal(shape) * 0.02).astype("float32")

    def norm(name):
        named[name + ".weight"] = numpy.ones(hidden)

    matrix("words", params["vocabulary"], hidden)
    for number in range(params["layers"]):
        layer = "layers.{}.".format(number)
        norm(layer + "norm1")
        matrix(layer + "query", hidden, hidden)
        matrix(layer + "key", hidden, shared)
        matrix(layer + "value", hidden, shared)
        matrix(layer + "attended", hidden, hidden)
        norm(layer + "norm2")
        if experts:
            matrix(layer + "router", hidden, *experts)
        matrix(layer + "gate", *experts, hidden, inner)
        matrix(layer + "widen", *experts, hidden, inner)
        matrix(layer + "narrow", *experts, inner, hidden)
    norm("norm")
    if not params["tied"]:
        matrix("logits", hidden, params["vocabulary"])
    return named
