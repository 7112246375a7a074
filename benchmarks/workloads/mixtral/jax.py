"""Mixtral's pre-training in JAX (Jiang et al. 2024, arXiv:2401.04088): Llama with experts."""

import jax
from jax import lax
from jax import numpy as jnp
from workloads.llama.jax import cross_entropy, linear
from workloads.llama.jax import model as llama
from workloads.mixtral.data import BALANCE, balance


def routed(scope, name, x, params):
    """Return the output of each token's chosen experts, the balance loss, and tokens per expert."""
    hidden, inner = params["hidden"], params["inner"]
    experts, active = params["experts"], params["active_experts"]
    likely = jax.nn.softmax(linear(scope, name + ".router", x, experts).astype(jnp.float32))
    weights, chosen = lax.top_k(likely, active)
    weights = weights / weights.sum(-1, keepdims=True)
    counts = jax.nn.one_hot(chosen, experts, dtype=jnp.int32).sum((1, 2))

    def swiglu(rows, weights, chosen):
        """Run the experts of this rank; rows that chose experts of other ranks are sorted last."""
        gate, widen, narrow = (
            scope.parameter(name + part + ".weight", experts, *shape)
            for part, shape in (
                (".gate", (hidden, inner)),
                (".widen", (hidden, inner)),
                (".narrow", (inner, hidden)),
            )
        )
        sizes = jax.nn.one_hot(chosen, len(gate), dtype=jnp.int32).sum((0, 1))
        # Rows ordered by expert: each token has one row for each of its experts.
        order = chosen.reshape(-1).argsort(stable=True)
        rows = rows[order // active]
        rows = jax.nn.silu(lax.ragged_dot(rows, gate, sizes)) * lax.ragged_dot(rows, widen, sizes)
        rows = lax.ragged_dot(rows, narrow, sizes)[order.argsort()]
        return (rows.reshape(*chosen.shape, hidden) * weights[..., None]).sum(1).astype(x.dtype)

    tokens = (x.reshape(-1, hidden), weights.reshape(-1, active), chosen.reshape(-1, active))
    y = scope.by_experts(swiglu, *tokens).reshape(x.shape)
    return y, balance(likely, counts), counts.sum(0)


def model(params):
    """Llama with experts: logits, the mean of `balance`, tokens by layer and expert."""
    network = llama(params)

    def mixtral(scope, tokens):
        told = []

        def feed_forward(*layer):
            y, *beside = routed(*layer)
            told.append(beside)
            return y

        logits = network(scope, tokens, feed_forward)
        balances, counts = zip(*told)
        return logits, jnp.stack(balances).mean(), jnp.stack(counts)

    return mixtral


def loss(model, batch):
    """Return the mean cross-entropy of the next tokens, plus the load-balancing loss."""
    logits, balanced, _ = model(batch["tokens"])
    return cross_entropy(logits, batch) + BALANCE * balanced


def tokens_per_expert(model, batch):
    """Return the number of a batch's tokens by layer and expert."""
    return model(batch["tokens"])[2]
