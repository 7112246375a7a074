"""Validates a document by a pydantic model; each error becomes a `Problem` with its line."""

import ast
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from nightbench.config.source import Document, key_path
from nightbench.core.complaints import Complaint, Key, any_of, describe, one_of, unquoted
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, Strategy
from nightbench.core.model.values import DERIVED

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def lines_of(catalog: Catalog | None) -> dict[str, object]:
    """Return what validators of names need to know of the catalog."""
    if catalog is None:
        return {}
    lines = catalog.frameworks.values()
    return {
        "frameworks": catalog.frameworks,
        "workloads": catalog.workloads,
        "roles": {role.name for line in lines for each in Strategy for role in line.roles_of(each)},
        "launcher_env": {
            variable: [line.line for line in lines if variable in line.launcher_env]
            for variable in sorted(set().union(*(line.launcher_env for line in lines)))
        },
    }


@cache
def fields_of(model: type[Any]) -> dict[str, FieldInfo]:
    """Key as a file writes it -> its field, described by the docstring below it."""
    fields: dict[str, FieldInfo] = getattr(model, "__pydantic_fields__", {}) or {
        name: FieldInfo.from_annotation(kind)
        for name, kind in typing.get_type_hints(model, include_extras=True).items()
    }
    body = ast.parse(inspect.getsource(model)).body[0].body  # type: ignore[attr-defined]
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                fields[name].description = " ".join(text.split())
    return {
        field.alias or name: field
        for name, field in fields.items()
        if DERIVED not in field.metadata
    }


_TYPES = {
    "string_type": "text (put it in quotes)",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "none_required": "nothing",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}


def validate(
    model: type[M],
    document: Document,
    context: Mapping[str, Any] | None = None,
    named: str | None = None,
) -> M:
    """Return a document as the model.

    The model's validators get the context: the catalog, for names. `named` is the key that holds
    the file's own name.

    Raises:
        ConfigError: all that is wrong with its keys.
    """
    if named is not None:
        document.complain_of_name(named)
    given = dict(context or {})
    try:
        return model.model_validate(document.data, context=given, by_alias=True, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False)
        document.add(_complaint(model, dict(each)) for each in found)
        raise document.error from None


def checked(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a request, a dataclass, from the values of its fields; empty ones have defaults.

    Raises:
        UserError: what is wrong with the first field that is.
    """
    return parsed(kind, {k: value for k, value in values.items() if value not in (None, "", [])})


def parsed(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a request from the values of its fields as they are.

    Raises:
        UserError: what is wrong with the first field that is.
    """
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        wrong = _complaint(kind, dict(error.errors(include_url=False)[0]))
        said = f"is missing; expected: {wrong.message}" if wrong.is_missing else wrong.message
        raise UserError(f"{key_path(wrong.key)}: {said}") from None


def alike(file: BaseModel, kind: type[Any]) -> dict[str, Any]:
    """Return the values of a section that a dataclass of the program has under the same names."""
    names = {each.name for each in dataclasses.fields(kind)} & type(file).model_fields.keys()
    return {name: getattr(file, name) for name in names}


def _complaint(model: type[Any], error: dict[str, Any]) -> Complaint:
    key: Key = tuple(part for part in error["loc"] if part != "[key]")
    kind, found = error["type"], error.get("input")
    context = error.get("ctx") or {}
    if kind == "missing":
        field = _fields_at(model, key[:-1])[str(key[-1])]
        return Complaint(key, str(field.description), is_missing=True)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        known = _fields_at(model, key[:-1])
        said = one_of(str(key[-1]), known).removeprefix("found ")
        return Complaint(key, f"found the unknown key {said}")
    if kind == "value_error":
        return Complaint(key, str(context["error"]))
    if kind == "literal_error":
        choices = re.findall(r"'(.*?)'", context["expected"])
        if isinstance(found, str):
            return Complaint(key, one_of(found, choices))
        return Complaint(key, f"found {describe(found)}; expected {any_of(choices)}")
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        expected = f"a number of {words} {context[name]}"
        return Complaint(key, f"found {describe(found)}; expected {expected}")
    if kind == "too_short":
        empty = describe(found).replace("a ", "an empty ", 1)
        return Complaint(key, f"found {empty}; expected at least one entry")
    expected = _TYPES.get(kind, error["msg"])
    remedy = unquoted(found) if kind in ("int_type", "float_type") else ""
    return Complaint(key, f"found {describe(found)}; expected {expected}{remedy}")


def _fields_at(model: type[Any], location: Key) -> Mapping[str, FieldInfo]:
    inner = _type_at(model, location)
    found = [each for each in _alternatives(inner) if _is_model(each)]
    return fields_of(found[0]) if found else {}


def _type_at(annotation: Any, location: Key) -> Any:
    for part in location:
        for each in _alternatives(annotation):
            if isinstance(part, str) and _is_model(each):
                annotation = fields_of(each)[part].annotation
                break
            arguments = [kind for kind in typing.get_args(each) if kind is not ...]
            if arguments:
                annotation = arguments[-1]
                break
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and (
        hasattr(annotation, "__pydantic_fields__") or dataclasses.is_dataclass(annotation)
    )


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union without None, with `Annotated` taken off; else the type itself."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = typing.get_args(annotation)
        return [kind for each in members if each is not type(None) for kind in _alternatives(each)]
    return [annotation]
