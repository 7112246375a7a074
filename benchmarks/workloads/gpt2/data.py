"""Initial weights of GPT-2; its packed sequences are Llama's."""

import numpy
from workloads.llama.data import batch, read

__all__ = ["EPSILON", "batch", "read", "weights"]

EPSILON = 1e-5
"""Epsilon of the layer norms, as in the authors' code."""


def weights(params, random):
    """Name -> initial value; matrices are (in, out), tables of embeddings (rows, hidden)."""
    named = {}
    hidden = params["hidden"]
    # As in the authors' code: the more layers add to the residual stream, the smaller each term.
    added = 0.02 * (2 * params["layers"]) ** -0.5

    def table(name, deviation, *shape):
        drawn = random.standard_normal(shape) * deviation
        named[name + ".weight"] = drawn.astype("float32")

    def linear(name, deviation, width, out):
        table(name, deviation, width, out)
        named[name + ".bias"] = numpy.zeros(out)

    def norm(name):
        named[name + ".weight"] = numpy.ones(hidden)
        named[name + ".bias"] = numpy.zeros(hidden)

    table("words", 0.02, params["vocabulary"], hidden)
    table("positions", 0.01, params["positions"], hidden)
    for number in range(params["layers"]):
        layer = "layers.{}.".format(number)
        norm(layer + "norm1")
        linear(layer + "query_key_value", 0.02, hidden, 3 * hidden)
        linear(layer + "attended", added, hidden, hidden)
        norm(layer + "norm2")
        linear(layer + "widen", 0.02, hidden, 4 * hidden)
        linear(layer + "narrow", added, 4 * hidden, hidden)
    norm("norm")
    return named
