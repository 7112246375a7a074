"""Example files are valid, and each key that a file may have stands in a file that ships."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from nightbench.config import load_catalog, load_cluster, load_suite
from nightbench.config.cluster_schema import ClusterFile
from nightbench.config.schema import SuiteFile
from nightbench.config.validate import fields_of

REPO = Path(__file__).resolve().parents[3]
EXAMPLES = REPO / "docs" / "examples"
CATALOG = load_catalog(REPO / "benchmarks")
WHEELS = ("jax-0.11.0-py3-none-any.whl", "jax-0.12.0-py3-none-any.whl")
"""Files of a site that the examples name."""

Key = tuple[str, ...]


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples with the files of a site that they name."""
    folder = tmp_path_factory.mktemp("site")
    for kind in ("clusters", "suites"):
        shutil.copytree(EXAMPLES / kind, folder / kind)
        (folder / kind / "wheels").mkdir()
    for wheel in WHEELS:
        (folder / "suites" / "wheels" / wheel).touch()
    return folder


@pytest.mark.parametrize("name", sorted(file.name for file in (EXAMPLES / "clusters").iterdir()))
def test_a_cluster_is_valid(examples: Path, name: str) -> None:
    assert load_cluster(examples / "clusters" / name, catalog=CATALOG).nodes


@pytest.mark.parametrize("name", sorted(file.name for file in (EXAMPLES / "suites").iterdir()))
def test_a_suite_has_cases_on_its_cluster(examples: Path, name: str) -> None:
    suite = load_suite(examples / "suites" / name, CATALOG)
    assert suite.cases
    assert suite.skipped == {}


@pytest.mark.parametrize(("kind", "model"), [("clusters", ClusterFile), ("suites", SuiteFile)])
def test_each_key_stands_in_a_file_that_ships(kind: str, model: type[BaseModel]) -> None:
    files = [*(REPO / "dags" / kind).rglob("*.yaml"), *EXAMPLES.rglob("*.yaml")]
    shown = {key for file in files for key in _keys_of(yaml.safe_load(file.read_text()))}
    known = set(_keys(model))
    assert len(known) > 60
    assert sorted(".".join(key) for key in known - shown) == []


def _keys(model: type[BaseModel], above: Key = ()) -> Iterator[Key]:
    """Every key that a model reads, below the keys above it; `*` is a name that people choose."""
    for name, field in fields_of(model).items():
        key = (*above, name)
        yield key
        for inner, below in _models(field.annotation, key):
            yield from _keys(inner, below)


def _models(annotation: Any, key: Key) -> Iterator[tuple[type[BaseModel], Key]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, key
    below = (*key, "*") if get_origin(annotation) is dict else key
    for argument in get_args(annotation):
        yield from _models(argument, below)


def _keys_of(value: Any, above: Key = ()) -> Iterator[Key]:
    """The keys of a file, below the keys above them, each also with `*` in place of names."""
    for each in value if isinstance(value, list) else ():
        yield from _keys_of(each, above)
    for name, inner in value.items() if isinstance(value, dict) else ():
        for key in ((*above, str(name)), (*above, "*")):
            yield key
            yield from _keys_of(inner, key)
