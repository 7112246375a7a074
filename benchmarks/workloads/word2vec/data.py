"""Synthetic text and the initial weights of word2vec."""

TOPIC = 10
"""So many words of the vocabulary, which follow each other, are neighbours of each other."""


def batch(params, batch_size, random):
    """A word and its neighbour (n, 1), and words that are none of its neighbours (n, negatives).

    Words follow Zipf's law; neighbours are of one topic: something that can be learnt.
    """
    size = params["vocabulary"]
    words = random.zipf(1.3, (batch_size, 1)) % size
    neighbours = words // TOPIC * TOPIC + random.randint(0, TOPIC, (batch_size, 1))
    negatives = random.randint(0, size, (batch_size, params["negatives"]))
    named = {"word": words, "neighbour": neighbours % size, "negatives": negatives}
    return {name: value.astype("int64") for name, value in named.items()}


def weights(params, random):
    """Name -> initial value: two tables (vocabulary, size)."""
    shape = (params["vocabulary"], params["embedding_size"])
    limit = params["embedding_size"] ** -0.5
    return {
        "words.weight": random.uniform(-limit, limit, shape),
        "neighbours.weight": random.uniform(-limit, limit, shape),
    }
