"""SimNet-BOW in Fluid: how well titles answer a query, by bags of words."""

from paddle.fluid import embedding, layers

MARGIN = 0.1
"""By which a title that answers has to be the nearer one."""


def model(params):
    """The network: a function from a batch to the cosines of a query with either title."""
    shape = [params["vocabulary"], params["embedding_size"]]

    def vector(words, name):
        # is_sparse: only the rows that a batch has touched travel to the servers.
        rows = embedding(words, shape, is_sparse=True, param_attr="words.weight")
        bag = layers.softsign(layers.reduce_sum(rows, 1))
        weight, bias = name + ".weight", name + ".bias"
        return layers.fc(bag, params["hidden"], param_attr=weight, bias_attr=bias)

    def cosines(batch):
        query = vector(batch["query"], "query")
        return [layers.cos_sim(query, vector(batch[it], "title")) for it in ("answer", "other")]

    return cosines


def loss(model, batch):
    """Mean hinge loss of a batch."""
    answer, other = model(batch)
    return layers.mean(layers.relu(other - answer + MARGIN))
