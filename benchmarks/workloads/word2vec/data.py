"""Synthetic text and the initial weights of word2vec."""

import numpy
from readers import text

TOPIC = 10
"""Number of consecutive words of the vocabulary that are neighbours of each other."""
WINDOW = 5
"""Maximum distance of neighbours in a real text, in words."""


def batch(params, batch_size, random):
    """Return a word and a neighbour (n, 1), and words that are not neighbours (n, negatives).

    Words follow Zipf's law. Neighbours have the same topic, which can be learnt.
    """
    size = params["vocabulary"]
    words = random.zipf(1.3, (batch_size, 1)) % size
    neighbours = words // TOPIC * TOPIC + random.randint(0, TOPIC, (batch_size, 1))
    negatives = random.randint(0, size, (batch_size, params["negatives"]))
    named = {"word": words, "neighbour": neighbours % size, "negatives": negatives}
    return {name: value.astype("int64") for name, value in named.items()}


def read(params, batch_size, part, random):
    """Yield batches of a text corpus, in the form of `batch`.

    Neighbours are up to WINDOW words away, near words more often. Negatives are sampled by the
    words' frequencies so far, to the power of 3/4 (Mikolov et al. 2013, arXiv:1310.4546).
    """
    corpus = text.Corpus(part, params["vocabulary"])
    counts = numpy.zeros(params["vocabulary"])
    tokens = corpus.take(2 * WINDOW)
    while True:
        tokens = numpy.concatenate([tokens[-2 * WINDOW :], corpus.take(batch_size)])
        numpy.add.at(counts, tokens[-batch_size:], 1)
        shares = numpy.cumsum(counts**0.75)
        middle = WINDOW + numpy.arange(batch_size)
        away = random.randint(1, 1 + random.randint(1, 1 + WINDOW, batch_size))
        away *= random.choice([-1, 1], batch_size)
        drawn = random.random_sample((batch_size, params["negatives"])) * shares[-1]
        yield {
            "word": tokens[middle][:, None],
            "neighbour": tokens[middle + away][:, None],
            "negatives": numpy.searchsorted(shares, drawn, side="right"),
        }


def weights(params, random):
    """Name -> initial value: two tables (vocabulary, size)."""
    shape = (params["vocabulary"], params["embedding_size"])
    limit = params["embedding_size"] ** -0.5
    return {
        "words.weight": random.uniform(-limit, limit, shape),
        "neighbours.weight": random.uniform(-limit, limit, shape),
    }
