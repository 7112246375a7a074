"""SimNet-BOW in Fluid: how well titles answer a query, by bags of words."""

from paddle.fluid import embedding, layers

MARGIN = 0.1
"""Minimum difference of cosines by which a title that answers must be nearer."""


def model(params):
    """The network: a function from a batch to the cosines of a query with either title."""
    size, width = params["embedding_size"], params["hidden"]
    counts = [params["query_words"], params["title_words"], params["title_words"]]

    def vector(rows, name):
        bag = layers.softsign(layers.reduce_sum(rows, 1))
        weight, bias = name + ".weight", name + ".bias"
        return layers.fc(bag, width, param_attr=weight, bias_attr=bias)

    def cosines(batch):
        # Servers look up one column of words. is_sparse: only the rows that a batch uses are sent
        # to them.
        words = layers.concat([batch["query"], batch["answer"], batch["other"]], axis=1)
        words = layers.reshape(words, [-1, 1])
        shape = [params["vocabulary"], size]
        rows = embedding(words, shape, is_sparse=True, param_attr="words.weight")
        query, *titles = layers.split(layers.reshape(rows, [-1, sum(counts), size]), counts, dim=1)
        query = vector(query, "query")
        return [layers.cos_sim(query, vector(title, "title")) for title in titles]

    return cosines


def loss(model, batch):
    """Mean hinge loss of a batch."""
    answer, other = model(batch)
    return layers.mean(layers.relu(other - answer + MARGIN))
