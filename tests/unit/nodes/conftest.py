"""A healthy GPU node, from the golden document that both sides of the contract test."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nightbench.core.model import ClockOffset
from nightbench.nodes import NodePreflight

GOLDEN = Path(__file__).resolve().parents[2] / "contract" / "golden" / "preflight.json"


def healthy_document() -> dict[str, Any]:
    """preflight/1 of a healthy node: no neighbours, no lock, no orphan."""
    found = json.loads(GOLDEN.read_text())
    found["foreign"] = {"cpu_share": 0.0, "processes": []}
    found["lock_holders"], found["orphans"] = [], []
    found["interpreters"] = {"3.7": "/usr/bin/python3.7", "3.11": "/usr/bin/python3.11"}
    return found


@pytest.fixture
def document() -> dict[str, Any]:
    return healthy_document()


@pytest.fixture
def seen(document: dict[str, Any]) -> Callable[..., NodePreflight]:
    """A look at node n1; `changed(document)` spoils something before."""

    def make(changed: Callable[[dict[str, Any]], object] | None = None, **more: Any):
        spoiled = copy.deepcopy(document)
        if changed is not None:
            changed(spoiled)
        given = {"document": spoiled, "reachable": True, "clock": ClockOffset(0.0, 0.001)}
        return NodePreflight("n1", "n1.test:22", "2026-11-21T01:00:00+00:00", **{**given, **more})

    return make
