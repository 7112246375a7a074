"""The heads of suites for DAG files, read without checking the rest.

DAG files are parsed every few seconds and at every task start. So only five keys are read here;
a suite is checked in full when it is planned, with messages that name line and key. One bad file
must not take the other suites' DAGs with it: its problem becomes the text of its own DAG.
"""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightbench.config.locations import find_clusters, find_suites
from nightbench.config.source import read_document
from nightbench.core.code_digest import layers
from nightbench.core.errors import UserError
from nightbench.core.model import digest_of
from nightbench.core.model.values import LONGEST_DAG_NAME, dag_name

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@midnight")
A_SCHEDULE = (
    'a cron expression of five fields that matches a date, such as "0 1 * * *", without random '
    f"fields (R), or {', '.join(sorted(PRESETS))}"
)
"""Expected as a schedule."""
_RANDOM = re.compile(r"(?<![A-Za-z])[Rr](?![A-Za-z])")


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
        """The DAG of the suite, if it has a schedule, or a problem that the DAG shows."""
        if name_problem(self.name) is None:
            return f"nightly_{self.name}"
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", self.name)[:50]
        return f"nightly_{readable}-{digest_of(self.name)[:8]}"

    @property
    def tags(self) -> list[str]:
        """The tags of its DAG."""
        names = (self.name, self.cluster)
        return ["nightly", *(name for name in names if 0 < len(name) <= LONGEST_DAG_NAME)]


def suite_heads(dags: Path) -> list[SuiteHead]:
    """The heads of all suites below a `dags` folder, by name."""
    return [_read_head(name, path) for name, path in find_suites(dags).items()]


def suite_names(dags: Path) -> list[str]:
    """Return the names of all suites that can be read."""
    return [head.name for head in suite_heads(dags) if head.problem is None]


def parallel_cases(dags: Path) -> dict[str, int]:
    """How many cases each cluster takes at once; 1 if its file does not say so readably."""
    found: dict[str, int] = {}
    for name, path in find_clusters(dags).items():
        # Planning a run with a broken file reports the error with its line.
        limits = _data(path).get("limits")
        number = limits.get("parallel_cases") if isinstance(limits, dict) else None
        if not isinstance(number, int) or isinstance(number, bool):
            number = 1
        found[name] = max(1, number)
    return found


def name_problem(name: str) -> str | None:
    """Return why a suite's file cannot have a name (without `.yaml`); None if it can."""
    try:
        dag_name(name)
    except ValueError as error:
        return f"the name of the file: {error}; rename the file"
    return None


def _read_head(name: str, path: Path) -> SuiteHead:
    try:
        document = read_document(path).data
    except UserError as error:
        return SuiteHead(name, problem=str(error))
    texts = {key: document.get(key) or "" for key in ("description", "owner", "cluster")}
    head = SuiteHead(
        name=name,
        **{key: value for key, value in texts.items() if isinstance(value, str) and value},
        schedule=document.get("schedule"),
    )
    problem = name_problem(head.name)
    if len(head.cluster) > LONGEST_DAG_NAME:
        problem = problem or f"cluster: found a name of {len(head.cluster)} characters"
    if head.schedule is not None and not is_schedule(head.schedule):
        problem = problem or f"schedule: found {head.schedule!r}; expected {A_SCHEDULE}"
    return dataclasses.replace(head, schedule=None, problem=problem) if problem else head


def is_schedule(value: object) -> bool:
    """Whether a value is a preset, or a cron expression of five fields with dates to come."""
    if not isinstance(value, str) or value in PRESETS:
        return value in PRESETS
    # croniter takes a fifth of a second to import, and most files have no schedule.
    from croniter import CroniterBadDateError, croniter

    # A random field (R) is a different time at each reading.
    if len(value.split()) != 5 or _RANDOM.search(value) or not croniter.is_valid(value):
        return False
    try:
        croniter(value).get_next()
    except CroniterBadDateError:
        return False
    return True


def framework_names(benchmarks: Path, project: Path | None = None) -> list[str]:
    """Framework lines, without those for tests."""
    lines = _lines(benchmarks, project).items()
    return [name for name, described in lines if not described.get("for_tests")]


def command_lines(benchmarks: Path, project: Path | None = None) -> tuple[str, ...]:
    """Framework lines that run a suite's commands."""
    lines = _lines(benchmarks, project).items()
    return tuple(name for name, described in lines if described.get("commands"))


def _lines(benchmarks: Path, project: Path | None) -> dict[str, Mapping[str, Any]]:
    found = sorted(layers("frameworks", benchmarks, project).items())
    return {name: _data(folders[-1] / "framework.json") for name, folders in found}


def workload_scales(benchmarks: Path, project: Path | None = None) -> dict[str, list[str]]:
    """Workloads with their scales."""
    found = {}
    for name, folders in sorted(layers("workloads", benchmarks, project).items()):
        scales = _data(folders[0] / "spec.json").get("scales")
        found[name] = sorted(scales) if isinstance(scales, dict) else []
    return found


def _data(path: Path) -> Mapping[str, Any]:
    """The data of a file; empty if it is broken, which the plan says with its line."""
    try:
        return read_document(path).data
    except UserError:
        return {}
