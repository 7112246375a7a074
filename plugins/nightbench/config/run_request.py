"""What somebody asks to be measured, and the suite and cluster that it means.

The form of `on_demand`, a nightly DAG and the command line all make a `RunRequest`. It is checked
where the run is planned: REST calls bypass the checks of the form.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightbench.config.builds import parse_build, parse_untrusted_build
from nightbench.config.case_checks import refusal_on
from nightbench.config.catalog import load_catalog
from nightbench.config.clusters import cluster_of
from nightbench.config.locations import suite_file
from nightbench.config.source import display
from nightbench.config.suites import suite_and_cluster
from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.model import Build, Catalog, Cluster, RunKind, Suite
from nightbench.core.run_plan import select
from nightbench.core.stand_ins import stand_in_lines, with_stand_in

MOST_REPEATS = 99
MOST_NAMES = 2000
"""Entries of one field: a suite has no more cases."""


@dataclass(frozen=True)
class RunRequest:
    """A suite, and what of it is measured, where and how; None and () keep the suite's own."""

    suite: str
    cluster: str | None = None
    frameworks: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()
    builds: tuple[str, ...] = ()
    repeats: int | None = None
    scale: str | None = None
    run_kind: RunKind = RunKind.ON_DEMAND
    night: bool = False
    """Keep to the hours and the budget of the suite's nights, as scheduled runs do."""
    outside_hours: bool = False
    """Measure also when the cluster's hours do not hold."""
    cases: tuple[str, ...] = ()
    """Only these case_ids of the suite."""
    untried: bool = False
    """Measure also what nobody has run on such devices yet."""
    stand_ins: tuple[str, ...] = ()
    """`LINE=OTHER`: the cases of a line that nodes cannot install are run by another line."""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        if self.night and self.outside_hours:
            raise UserError(
                "outside_hours: found it with night, which keeps to the hours; choose one of them"
            )
        changed = [
            name for name in ("builds", "repeats", "scale", "stand_ins") if getattr(self, name)
        ]
        if self.run_kind is RunKind.NIGHTLY and changed:
            raise UserError(
                f"run_kind: found nightly together with {' and '.join(changed)}; a nightly run "
                "measures the suite as its file says, because later nights are judged by it. "
                f"Choose {RunKind.ON_DEMAND}, or change the suite's file"
            )

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> RunRequest:
        """From the values of the form; empty fields mean the suite's own.

        Raises:
            UserError: a field holds what it cannot, or there is no such field.
        """
        for name in params:
            if name not in _READERS:
                raise UserError(f"params: {one_of(name, _READERS)}")
        found = {name: read(name, params.get(name)) for name, read in _READERS.items()}
        if found["suite"] is None:
            raise UserError("suite: found nothing; expected the name of a suite")
        return cls(**found)

    def to_params(self) -> dict[str, Any]:
        """The values of the form that say the same."""
        fields = {k: list(x) if isinstance(x, tuple) else x for k, x in vars(self).items()}
        return {**fields, "run_kind": self.run_kind.value}


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{name}: found {value!r}; expected a name")
    return value.strip() or None if value else None


def _several(name: str, value: Any) -> tuple[str, ...]:
    entries = [value] if value and isinstance(value, str) else value or []
    if isinstance(entries, list) and len(entries) > MOST_NAMES:
        raise UserError(f"{name}: found {len(entries)} entries; expected no more than {MOST_NAMES}")
    if not isinstance(entries, list) or not all(isinstance(e, str) for e in entries):
        raise UserError(f"{name}: found {value!r}; expected a list of names")
    return tuple(entry.strip() for entry in entries if entry.strip())


def _repeats(name: str, value: Any) -> int | None:
    if value is None or (type(value) is int and 1 <= value <= MOST_REPEATS):
        return value
    expected = f"a whole number from 1 to {MOST_REPEATS}, or nothing"
    raise UserError(f"{name}: found {value!r}; expected {expected}")


def _switch(name: str, value: Any) -> bool:
    if value not in (None, True, False):
        raise UserError(f"{name}: found {value!r}; expected true or false")
    return bool(value)


def _run_kind(name: str, value: Any) -> RunKind:
    kind = _text(name, value) or RunKind.ON_DEMAND.value
    known = [each for each in RunKind if each is not RunKind.ACCEPTANCE]  # of no suite
    if kind not in known:
        raise UserError(f'{name}: found "{kind}"; expected one of {", ".join(known)}')
    return RunKind(kind)


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("suite", "cluster"), _text),
    **dict.fromkeys(("frameworks", "workloads", "strategies", "builds"), _several),
    "repeats": _repeats,
    "scale": _text,
    "run_kind": _run_kind,
    **dict.fromkeys(("night", "outside_hours", "untried"), _switch),
    **dict.fromkeys(("cases", "stand_ins"), _several),
}
"""Field of a `RunRequest` -> what reads its value from the form."""


def resolve_request(
    request: RunRequest, catalog: Catalog | None = None, *, files: bool = False
) -> tuple[Suite, Cluster, Catalog]:
    """The suite and the cluster that a request means, after every check.

    The catalog is read from the files where None is given, and then knows of no acceptances.
    With `files` names may be paths of YAML files, and builds lie anywhere: for the command line,
    whose user may read them anyway, and never for what comes from a form.

    Raises:
        UserError: an unknown name, a wrong file, or a case that cannot run there.
    """
    catalog = catalog or load_catalog()
    path = suite_file(request.suite, files=files)
    named = cluster_of(request.cluster, catalog, files=files) if request.cluster else None
    suite, cluster = suite_and_cluster(
        path, catalog, cluster=named, scale=request.scale, untried=request.untried
    )
    if not suite.cases:
        reasons = "\n".join(dict.fromkeys(suite.skipped.values()))
        raise UserError(
            f"suite {suite.name} at scale {suite.scale}: found no case that can run on cluster "
            f"{cluster.name}:\n{reasons}"
        )
    for text in request.stand_ins:
        suite = _with_stand_in(suite, text, cluster, catalog)
    cases = select(
        suite.cases,
        frameworks=request.frameworks,
        workloads=request.workloads,
        strategies=request.strategies,
        case_ids=request.cases,
    )
    builds = [
        parse_build(text) if files else parse_untrusted_build(text, cluster)
        for text in request.builds
    ]
    chosen = customise(
        dataclasses.replace(suite, cases=cases),
        catalog,
        cluster,
        repeats=request.repeats,
        builds={build.line: build for build in builds},
    )
    return chosen, cluster, catalog


def _with_stand_in(suite: Suite, text: str, cluster: Cluster, catalog: Catalog) -> Suite:
    """Return the suite with the cases of one line run by another.

    Raises:
        UserError: the suite has no such line, or no such line can run its cases.
    """
    line, _, other = text.partition("=")
    catalog = catalog.with_commands(suite)
    lines = sorted({case.framework for case in suite.cases})
    if line not in lines:
        raise UserError(f"stand_ins: {one_of(line, lines)}; write LINE=OTHER")
    able = stand_in_lines(suite, line, cluster, catalog)
    cases = with_stand_in(suite, line, other, cluster, catalog) if other in able else None
    if cases is None:
        raise UserError(f"stand_ins: {line}: {one_of(other, able)}")
    return dataclasses.replace(suite, cases=cases)


def customise(
    suite: Suite,
    catalog: Catalog,
    cluster: Cluster,
    *,
    repeats: int | None = None,
    builds: dict[str, Build] | None = None,
) -> Suite:
    """Return the suite with what one run overrides: cluster, repeats, builds.

    Raises:
        UserError: a case cannot run that way.
    """
    catalog = catalog.with_commands(suite)
    chosen = {**suite.builds, **(builds or {})}
    if repeats is not None and repeats < 1:
        raise UserError(f"repeats: found {repeats}; expected a whole number of at least 1")
    for line in chosen:
        if line not in catalog.frameworks:
            raise UserError(f"build: {one_of(line, catalog.frameworks)}")
    refusals: list[str] = []
    for case in suite.cases:
        refusal = refusal_on(case, catalog, cluster, chosen, untried=suite.untried)
        if refusal is not None and refusal.message not in refusals:
            refusals.append(refusal.message)
    if refusals:
        raise UserError("\n".join(f"{display(Path(suite.source))}: {each}" for each in refusals))
    protocol = suite.protocol
    if repeats is not None:
        # A number means exactly that number, also where the suite lets the spread decide.
        protocol = dataclasses.replace(protocol, repeats=repeats, min_repeats=None, confidence=None)
    return dataclasses.replace(
        suite,
        cluster=cluster.name,
        protocol=protocol,
        builds=chosen,
        private_builds=frozenset(
            line for line in builds or {} if chosen[line] != suite.builds.get(line)
        ),
    )
