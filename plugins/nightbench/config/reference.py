"""The reference pages of the files that people write, made from the classes that read them."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nightbench.config.catalog_schema import FrameworkFile, SpecFile
from nightbench.config.cluster_schema import ClusterFile
from nightbench.config.schema import RepeatsFile, SuiteFile
from nightbench.config.validate import fields_of
from nightbench.config.values import Words

PAGES: dict[str, tuple[str, type[BaseModel]]] = {
    "suites": ("Suites: `dags/suites/<suite>.yaml`", SuiteFile),
    "clusters": ("Clusters: `dags/clusters/<cluster>.yaml`", ClusterFile),
    "frameworks": ("Framework lines: `benchmarks/frameworks/<line>/framework.json`", FrameworkFile),
    "workloads": ("Workloads: `benchmarks/workloads/<workload>/spec.json`", SpecFile),
}
_GENERATED = "<!-- Made by tools/make_reference.py from plugins/nightbench/config. Do not edit. -->"
_PLAIN = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}


def page(name: str) -> str:
    """Return a reference page as Markdown.

    Args:
        name: one of `PAGES`.
    """
    title, model = PAGES[name]
    parts = [_GENERATED, f"# {title}", _summary(model), _table(model)]
    for key, inner in _inner_models(model):
        parts += [f"## `{key}`", _summary(inner), _table(inner)]
    return "\n\n".join(parts) + "\n"


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n")[0]


def _table(model: type[BaseModel]) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in fields_of(model).items():
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {_words(field)} | {_default(field)} | {meaning} |")
    return "\n".join(lines)


def _inner_models(
    model: type[BaseModel], prefix: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in fields_of(model).items():
        inner = _model_in(field.annotation)
        if inner is None:
            continue
        mark = _mark(field.annotation)
        yield f"{prefix}{name}{mark}", inner
        yield from _inner_models(inner, f"{prefix}{name}{mark}.")


def _mark(annotation: Any) -> str:
    """How the key of an inner model goes on: `[]` in a list, `.<name>` in a mapping of names."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _mark(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is tuple:
        return "[]"
    if typing.get_origin(annotation) is dict:
        key, value = typing.get_args(annotation)
        return f".<{_type_words(key)}>{_mark(value)}"
    return ""


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in typing.get_args(annotation):
        found = _model_in(part)
        if found is not None:
            return found
    return None


def _words(field: FieldInfo) -> str:
    named = [each.text for each in field.metadata if isinstance(each, Words)]
    return named[0] if named else _type_words(field.annotation)


def _type_words(annotation: Any) -> str:
    """Say in words what a type takes."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        named = [each.text for each in arguments[1:] if isinstance(each, Words)]
        return named[-1] if named else _type_words(arguments[0])
    if origin is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type_words(each) for each in arguments if each is not type(None))
    if origin in (list, tuple):
        return f"list of {_type_words(arguments[0])}"
    if origin is dict:
        return f"{_type_words(arguments[0])}: {_type_words(arguments[1])}"
    if _model_in(annotation) is not None:
        return "mapping, see below"
    return _PLAIN.get(annotation, str(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or value in ((), {}, ""):
        return ""
    if isinstance(value, RepeatsFile):
        return f"`{value}`"
    if isinstance(value, BaseModel):
        return "its defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    if isinstance(value, tuple):
        value = "-".join(str(each) for each in value)
    named = {each.text for each in field.metadata if isinstance(each, Words)}
    if "duration" in named:
        value = f"{value:g}s"
    if "size" in named:
        value = f"{value / 1e9:g}GB"
    if "percentage" in named:
        value = f"{value * 100:g}%"
    return f"`{value}`"
