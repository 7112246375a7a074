"""Synthetic queries and titles, and the initial weights of SimNet-BOW."""

import numpy


def batch(params, batch_size, random):
    """Return words of a query (n, query_words), of a title that answers it and of another title.

    Words follow Zipf's law. Queries use the first half of the vocabulary. A title that answers has
    the counterparts of the query's words in the second half, which can be learnt.
    """
    half = params["vocabulary"] // 2
    words = params["query_words"], params["title_words"]
    query, other = (random.zipf(1.3, (batch_size, count)) % half for count in words)
    answer = numpy.resize(query.T, (words[1], batch_size)).T
    named = {"query": query, "answer": half + answer, "other": half + other}
    return {name: value.astype("int64") for name, value in named.items()}


def weights(params, random):
    """Name -> initial value; matrices are (in, out)."""
    size, hidden = params["embedding_size"], params["hidden"]
    limit = (6.0 / (size + hidden)) ** 0.5  # Glorot and Bengio 2010
    return {
        "words.weight": random.uniform(-0.1, 0.1, (params["vocabulary"], size)),
        "query.weight": random.uniform(-limit, limit, (size, hidden)),
        "query.bias": numpy.zeros(hidden),
        "title.weight": random.uniform(-limit, limit, (size, hidden)),
        "title.bias": numpy.zeros(hidden),
    }
