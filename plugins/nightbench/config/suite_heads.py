"""What a DAG file needs of the suites: their heads, read without checking the rest.

DAG files are parsed every few seconds and at every task start. So only five keys are read here;
a suite is checked in full when it is planned, with messages that name line and key. One bad file
must not take the other suites' DAGs with it: its problem becomes the text of its own DAG.
"""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nightbench.config.locations import find_clusters, find_suites
from nightbench.config.source import read_document
from nightbench.core.code_digest import layers
from nightbench.core.errors import UserError

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@midnight")


@dataclass(frozen=True)
class SuiteHead:
    """The top of a suite's file."""

    name: str
    description: str = ""
    owner: str = "nightbench"
    cluster: str = ""
    schedule: str | None = None
    problem: str | None = None
    """Why the file cannot be read; such a suite is shown, and never scheduled."""

    @property
    def dag_id(self) -> str:
        """The DAG of the suite, where it has a schedule."""
        return f"nightly_{self.name}"


def suite_heads(dags: Path) -> list[SuiteHead]:
    """The heads of all suites below a `dags` folder, by name."""
    return [_read_head(path) for path in find_suites(dags).values()]


def suite_names(dags: Path) -> list[str]:
    """Return the names of all suites that can be read."""
    return [head.name for head in suite_heads(dags) if head.problem is None]


def parallel_cases(dags: Path) -> dict[str, int]:
    """How many cases each cluster takes at once; 1 where its file does not say so readably."""
    found: dict[str, int] = {}
    for name, path in find_clusters(dags).items():
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            # The plan of a run on it says what is wrong, with the line.
            document = None
        limits = document.get("limits") if isinstance(document, dict) else None
        number = limits.get("parallel_cases") if isinstance(limits, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            number = 1
        found[name] = max(1, number)
    return found


def _read_head(path: Path) -> SuiteHead:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        document = None
    if not isinstance(document, dict):
        return SuiteHead(path.stem, problem=_why_unreadable(path))
    texts = {name: document.get(name) or "" for name in ("description", "owner", "cluster")}
    head = SuiteHead(
        name=path.stem,
        **{name: value for name, value in texts.items() if isinstance(value, str) and value},
        schedule=document.get("schedule"),
    )
    if head.schedule is None or is_schedule(head.schedule):
        return head
    expected = f"expected five cron fields or {', '.join(PRESETS)}"
    problem = f"schedule: found {head.schedule!r}; {expected}"
    return dataclasses.replace(head, schedule=None, problem=problem)


def _why_unreadable(path: Path) -> str:
    """Return what `nightbench validate` says of a file: its line, and the remedy."""
    try:
        read_document(path)
    except UserError as error:
        return str(error)
    return f"{path.name}: changed while it was read; Airflow reads it again within a minute"


def is_schedule(value: object) -> bool:
    """Whether a value is a preset, or a cron expression of five fields."""
    if not isinstance(value, str) or value in PRESETS:
        return value in PRESETS
    # croniter takes a fifth of a second to import, and most files have no schedule.
    from croniter import croniter

    return len(value.split()) == 5 and bool(croniter.is_valid(value))


def framework_names(benchmarks: Path, project: Path | None = None) -> list[str]:
    """Framework lines, without those for tests."""
    lines = _lines(benchmarks, project).items()
    return [name for name, described in lines if not described.get("for_tests")]


def command_lines(benchmarks: Path, project: Path | None = None) -> tuple[str, ...]:
    """Framework lines that run a suite's commands."""
    lines = _lines(benchmarks, project).items()
    return tuple(name for name, described in lines if described.get("commands"))


def _lines(benchmarks: Path, project: Path | None) -> dict[str, dict[str, Any]]:
    found = sorted(layers("frameworks", benchmarks, project).items())
    return {name: _description(folders[-1] / "framework.json") for name, folders in found}


def workload_scales(benchmarks: Path, project: Path | None = None) -> dict[str, list[str]]:
    """Workloads with their scales."""
    found = {}
    for name, folders in sorted(layers("workloads", benchmarks, project).items()):
        scales = _description(folders[0] / "spec.json").get("scales")
        found[name] = sorted(scales) if isinstance(scales, dict) else []
    return found


def _description(path: Path) -> dict[str, Any]:
    """The JSON object of a folder; empty where it is broken, which the plan says with its line."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
