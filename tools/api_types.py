"""TypeScript types of what the JSON API answers, from its models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from nightbench.web import (
    alert_models,
    compare_api,
    experiment_models,
    run_models,
    ui_models,
)
from nightbench.web.api_model import ApiModel, Items

MODELS = (ui_models, alert_models, compare_api, experiment_models, run_models)

_SCALARS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def typescript() -> str:
    """Return the text of `src/api-types.ts`."""
    models = {
        value
        for module in MODELS
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, ApiModel)
    } - {ApiModel, Items}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, document = models_json_schema([(model, "serialization") for model in ordered])
    parts = [
        "// Made from plugins/nightbench/web/ui_models.py by `make ui`.\n",
        "export type Items<T> = {\n  items: Array<T>;\n};\n",
    ]
    for name, schema in sorted(document["$defs"].items()):
        if "enum" in schema:
            parts.append(f"export type {name} = {_type(schema)};\n")
            continue
        fields = "".join(f"  {key}: {_type(of)};\n" for key, of in schema["properties"].items())
        parts.append(f"export type {name} = {{\n{fields}}};\n")
    return "\n".join(parts)


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema["enum"])
    kind = schema["type"]
    if kind == "null":
        return "null"
    if kind == "array":
        return f"Array<{_type(schema['items'])}>"
    if kind == "object":
        return f"Record<string, {_type(schema['additionalProperties'])}>"
    return _SCALARS[kind]
