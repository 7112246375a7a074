"""Cost of an example: model FLOPs and tokens, from the formulas of a `spec.json`. Pure."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from nightbench.core.model import Case, WorkloadInfo

TRAINING = 3.0
"""Forward and backward, in forward passes: each product has two gradients, of equal cost. Products
that are computed again to save memory are no model FLOPs."""

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


def evaluate(formula: str, params: Mapping[str, Any]) -> float:
    """Return the value of a formula: numbers and parameters, `+ - * / **`, `sum(a list)`.

    Raises:
        ValueError: it is no such formula, names what is no number, or has no finite value.
    """
    try:
        value = float(_value(ast.parse(formula, mode="eval").body, params))
    except (SyntaxError, ZeroDivisionError, OverflowError, TypeError) as error:
        raise ValueError(f"{error}") from None
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"its value is {value:g}")
    return value


def _value(node: ast.expr, params: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            if isinstance(params.get(name), bool) or not isinstance(params.get(name), int | float):
                raise ValueError(f"`{name}` is not a number among the scale's parameters")
            return params[name]
        case ast.BinOp(left, operator, right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_value(left, params), _value(right, params))
        case ast.Call(func=ast.Name(id="sum"), args=[ast.Name(id=name)], keywords=[]):
            if not isinstance(params.get(name), list):
                raise ValueError(f"`{name}` is not a list among the scale's parameters")
            return sum(params[name])
    raise ValueError(f"found `{ast.unparse(node)}`; expected numbers, parameters and + - * / **")


def flops_per_unit(workload: WorkloadInfo, case: Case) -> float | None:
    """Return the model FLOPs of one unit of work; None if the workload states none."""
    params, forward = _params(workload, case), workload.cost.forward if workload.cost else {}
    terms = [evaluate(formula, params) for formula in forward.values()]
    return TRAINING * math.fsum(terms) / _units(params) if terms else None


def step_flops_per_unit(workload: WorkloadInfo, params: Mapping[str, Any]) -> float | None:
    """Return the FLOPs of products in a trainer's step for one unit; None if there are none.

    `params` are the parameters of the scale.
    """
    if workload.cost is None:
        return None
    known = {"parameters": workload.parameters, **params}
    forward, computed = workload.cost.forward, workload.cost.computed
    flops = [evaluate(text, known) * computed.get(term, 1.0) for term, text in forward.items()]
    return TRAINING * math.fsum(flops) / _units(known) or None


def tokens_per_unit(workload: WorkloadInfo, case: Case) -> float | None:
    """Return the tokens of one unit of work; None if the workload is no language model."""
    if workload.cost is None or workload.cost.tokens is None:
        return None
    params = _params(workload, case)
    return evaluate(workload.cost.tokens, params) / _units(params)


def _params(workload: WorkloadInfo, case: Case) -> dict[str, Any]:
    return {"parameters": workload.parameters, **workload.params_of(case)}


def _units(params: Mapping[str, Any]) -> int:
    return int(params.get("units_per_example", 1))
