"""FLOPs of a step as JAX has traced it: matrix products, convolutions, attention by cuDNN."""

import math

import jax


def flops_of(jaxpr):
    """Return the FLOPs of one call; inside a `shard_map`, those of one device."""
    return sum(map(_flops, jaxpr.eqns))


def _flops(equation):
    name, params = equation.primitive.name, equation.params
    given = [each.aval for each in equation.invars]
    made = equation.outvars[0].aval if equation.outvars else None
    if name == "dot_general":
        (summed, _), _ = params["dimension_numbers"]
        return 2 * made.size * math.prod(given[0].shape[axis] for axis in summed)
    if name == "ragged_dot_general":  # Each row is multiplied by one expert's matrix only.
        return 2 * given[0].size * made.shape[-1]
    if name == "conv_general_dilated":
        features = given[1].shape[params["dimension_numbers"].rhs_spec[0]]
        # Zeros between gradients of a strided convolution are no work.
        return 2 * made.size * given[1].size // features // math.prod(params["lhs_dilation"])
    if name.startswith("dot_product_attention_"):
        return _attention(*given[:3]) * (2 if "_bwd" in name else 1)
    leaves = jax.tree.leaves(list(params.values()))
    inner = [flops_of(each) for each in leaves if hasattr(each, "eqns")]
    return (max if name == "cond" else sum)([0, *inner]) * params.get("length", 1)


def _attention(query, key, value):
    """Return both products' FLOPs, masked or not, for (batch, length, heads, width)."""
    return 2 * query.size * key.shape[1] * 2
