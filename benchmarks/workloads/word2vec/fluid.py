"""Skip-gram with negative sampling in Fluid (Mikolov et al. 2013, arXiv:1310.4546)."""

from paddle.fluid import embedding, layers


def model(params):
    """The network: a function from a batch to the scores of a word's neighbour and of others."""
    shape = [params["vocabulary"], params["embedding_size"]]

    def vectors(words, count, table):
        # Servers look up one column of words (for several they return wrong rows), and return a row
        # for each word. is_sparse: only the rows that a batch uses are sent.
        column = layers.reshape(words, [-1, 1])
        found = embedding(column, shape, is_sparse=True, param_attr=table)
        return layers.reshape(found, [-1, count, params["embedding_size"]])

    def scores(batch):
        word = vectors(batch["word"], 1, "words.weight")
        others = layers.concat([batch["neighbour"], batch["negatives"]], axis=1)
        others = vectors(others, 1 + params["negatives"], "neighbours.weight")
        return layers.squeeze(layers.matmul(others, word, transpose_y=True), [2])

    return scores


def loss(model, batch):
    """Equation 4 of the paper: logistic losses of all scores of a word, the mean over words."""
    scores = model(batch)
    neighbour = layers.slice(scores, [1], [0], [1])
    negatives = layers.slice(scores, [1], [1], [scores.shape[1]])
    losses = layers.concat([layers.softplus(neighbour * -1.0), layers.softplus(negatives)], axis=1)
    return layers.mean(layers.reduce_sum(losses, 1))
