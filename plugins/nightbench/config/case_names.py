"""The case_ids of suites, for a form that offers them: expanded, not checked."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nightbench.config.matrix import read_cases
from nightbench.config.schema import SuiteFile
from nightbench.config.source import read_document
from nightbench.config.suites import find_suites
from nightbench.config.validate import validate
from nightbench.core.errors import UserError

MOST = 500
"""Case_ids that are offered; a list that is longer helps nobody in a form."""


def case_names(dags: Path, suites: Iterable[str]) -> list[str]:
    """Return the case_ids of suites, each once, in the order of the suites and their files.

    A suite that cannot be read contributes none: its run says what is wrong, with the line.
    """
    files = find_suites(dags)
    found = (name for suite in suites if suite in files for name in _names(files[suite]))
    return list(dict.fromkeys(found))[:MOST]


def _names(path: Path) -> list[str]:
    try:
        document = read_document(path)
        file = validate(SuiteFile, document)
        return [each.case.case_id for each in read_cases(document, file, {})]
    except UserError:
        return []
