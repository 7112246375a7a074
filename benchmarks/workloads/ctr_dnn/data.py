"""Synthetic clicks in the shape of the Criteo data, and the initial weights of CTR-DNN."""

import numpy
from readers import criteo_tsv


def batch(params, batch_size, random):
    """Return dense features (n, d); ids (n, 1) for each slot, in its part of the table; labels.

    Ids follow Zipf's law in their slot's part. A sample is clicked if most of its ids are odd,
    which can be learnt.
    """
    slots, span = params["sparse_slots"], params["vocabulary"] // params["sparse_slots"]
    ids = random.zipf(1.3, (slots, batch_size, 1)) % span
    made = {"dense": random.rand(batch_size, params["dense_features"]).astype("float32")}
    for slot in range(slots):
        made["slot{}".format(slot)] = (ids[slot] + slot * span).astype("int64")
    made["label"] = ((ids % 2).sum(axis=0) * 2 > slots).astype("int64")
    return made


def read(params, batch_size, part, random):
    """Batches of Criteo's clicks, as `batch` makes them, in the order of the files."""
    return criteo_tsv.batches(params["sparse_slots"], params["vocabulary"], batch_size, part)


def weights(params, random):
    """Name -> initial value; matrices are (in, out)."""
    size = params["embedding_size"]
    named = {"table.weight": random.uniform(-0.01, 0.01, (params["vocabulary"], size))}
    width = params["sparse_slots"] * size + params["dense_features"]
    layers = ["hidden.{}".format(number) for number in range(len(params["hidden"]))] + ["click"]
    for layer, out in zip(layers, [*params["hidden"], 2]):
        limit = (6.0 / (width + out)) ** 0.5  # Glorot and Bengio 2010
        named[layer + ".weight"] = random.uniform(-limit, limit, (width, out))
        named[layer + ".bias"] = numpy.zeros(out)
        width = out
    return named
