"""The reference pages say what the files are read by."""

from __future__ import annotations

import runpy
from pathlib import Path

from nightbench.config.schema import SuiteFile
from nightbench.config.validate import fields_of

REPO = Path(__file__).resolve().parents[3]


def test_the_pages_are_up_to_date() -> None:
    made = runpy.run_path(str(REPO / "tools" / "make_reference.py"))["pages"]()
    stale = [path.name for path, text in made.items() if path.read_text() != text]
    assert stale == [], "run .venv/bin/python tools/make_reference.py"


def test_every_key_is_described() -> None:
    assert all(field.description for field in fields_of(SuiteFile).values())
