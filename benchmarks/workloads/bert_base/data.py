"""Synthetic sequences and the initial weights of BERT."""

import numpy
from readers import text

MASK = 103
"""The token [MASK] of the published vocabulary."""


def batch(params, batch_size, random):
    """Return sequences of two sentences, of which `predictions` tokens are masked.

    Tokens follow Zipf's law, which can be learnt. Names and shapes: tokens and segments (n,
    length); masked_positions and masked_tokens, the original tokens there, (n, predictions);
    next_sentence (n), whether the second sentence follows the first.
    """
    shape = (batch_size, params["sequence_length"])
    tokens = random.zipf(1.3, shape) % params["vocabulary"]
    order = random.random_sample(shape).argsort(axis=1)
    positions = numpy.sort(order[:, : params["predictions"]], axis=1)
    masked_tokens = numpy.take_along_axis(tokens, positions, axis=1)
    numpy.put_along_axis(tokens, positions, MASK, axis=1)
    segments = numpy.zeros(shape)
    segments[:, shape[1] // 2 :] = 1
    made = {
        "tokens": tokens,
        "segments": segments,
        "masked_positions": positions,
        "masked_tokens": masked_tokens,
        "next_sentence": random.randint(0, 2, batch_size),
    }
    return {name: value.astype("int64") for name, value in made.items()}


def read(params, batch_size, part, random):
    """Yield batches of a text corpus, in the form of `batch`.

    [CLS] A [SEP] B [SEP] fills the length. Text continues in the next document after a separator
    (FULL-SENTENCES of Liu et al. 2019, arXiv:1907.11692), so that nothing is padded. In half of the
    sequences, B is from elsewhere in the text. 80 % of the tokens to predict are masked, 10 %
    replaced and 10 % kept.
    """
    corpus = text.Corpus(part, params["vocabulary"])
    length, predictions = params["sequence_length"], params["predictions"]
    half = (length - 3) // 2
    begin, separator, mask = (corpus.ids[x] for x in (text.BEGIN, text.SEPARATOR, text.MASK))
    segments = (numpy.arange(length) > half + 1).astype("int64")
    words = numpy.delete(numpy.arange(length), (0, half + 1, length - 1))
    other = corpus.take(length - 3 - half)
    while True:
        tokens = numpy.full((batch_size, length), separator)
        tokens[:, 0] = begin
        next_sentence = random.randint(0, 2, batch_size)
        for sequence, follows in zip(tokens, next_sentence):
            sequence[1 : 1 + half] = corpus.take(half)
            sentence = corpus.take(len(other))
            if not follows:
                sentence, other = other, sentence
            sequence[half + 2 : -1] = sentence
        order = random.random_sample((batch_size, len(words))).argsort(axis=1)
        positions = numpy.sort(words[order[:, :predictions]], axis=1)
        masked_tokens = numpy.take_along_axis(tokens, positions, axis=1)
        drawn = random.random_sample(positions.shape)
        replaced = random.randint(0, len(corpus.ids), positions.shape)
        shown = numpy.where(drawn < 0.1, replaced, masked_tokens)
        numpy.put_along_axis(tokens, positions, numpy.where(drawn < 0.2, shown, mask), axis=1)
        yield {
            "tokens": tokens,
            "segments": numpy.tile(segments, (batch_size, 1)),
            "masked_positions": positions,
            "masked_tokens": masked_tokens,
            "next_sentence": next_sentence.astype("int64"),
        }


def weights(params, random):
    """Name -> initial value; matrices are (in, out), tables of embeddings (rows, hidden)."""
    named = {}
    hidden, vocabulary = params["hidden"], params["vocabulary"]

    def table(name, *shape):
        # As in the authors' code: a normal distribution, truncated at two standard deviations.
        drawn = random.standard_normal(shape).clip(-2, 2) * 0.02
        named[name + ".weight"] = drawn.astype("float32")

    def linear(name, width, out):
        table(name, width, out)
        named[name + ".bias"] = numpy.zeros(out)

    def norm(name):
        named[name + ".weight"] = numpy.ones(hidden)
        named[name + ".bias"] = numpy.zeros(hidden)

    table("words", vocabulary, hidden)
    table("positions", params["positions"], hidden)
    table("segments", 2, hidden)
    norm("norm")
    for number in range(params["layers"]):
        layer = "layers.{}.".format(number)
        linear(layer + "query_key_value", hidden, 3 * hidden)
        linear(layer + "attended", hidden, hidden)
        norm(layer + "norm1")
        linear(layer + "widen", hidden, 4 * hidden)
        linear(layer + "narrow", 4 * hidden, hidden)
        norm(layer + "norm2")
    linear("pooler", hidden, hidden)
    linear("next_sentence", hidden, 2)
    linear("transform", hidden, hidden)
    norm("transform_norm")
    named["vocabulary_bias"] = numpy.zeros(vocabulary)
    return named
