"""Runs tables of checks on data frames with Great Expectations."""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nightbench.checks.expectation import Check, CheckContext
from nightbench.core.model import CheckResult, Severity

if TYPE_CHECKING:
    import pandas as pd

WHERE = ("repeat", "process")
"""Columns of every frame that locate a value."""

NOT_STATED = "not stated"
"""Observed by a check that needs what the log of a command does not say."""

_SHOWN = 3
"""Values that a result lists; the rest is counted."""


@functools.cache
def _great_expectations() -> tuple[Any, Any]:
    """Return the package and a batch definition for frames, made once for each process."""
    # Read while the package is imported: it posts usage events to a public host otherwise.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings():
        # Deprecations inside Great Expectations are not the user's to mend.
        warnings.simplefilter("ignore")
        # Before the import: it logs everything that it decorates, at INFO.
        logging.getLogger("great_expectations").setLevel(logging.WARNING)
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

        logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        source = context.data_sources.add_pandas("nightbench")
        asset = source.add_dataframe_asset("frame")
        return gx, asset.add_batch_definition_whole_dataframe("whole")


def hold(
    subject: str,
    checks: Sequence[Check],
    frames: Mapping[str, pd.DataFrame],
    context: CheckContext,
    failed: frozenset[int | None] = frozenset(),
) -> list[CheckResult]:
    """Return one result for each check and repeat, ordered by repeat and then as in the table.

    Every frame has the columns `repeat` and `process`; the frame `repeats` names all repeats.
    `failed` are those that did not end well. A check that needs what only a rank of ours states
    neither passes nor fails where figures are read from a log: it warns that they are not stated.
    """
    gx, batch_definition = _great_expectations()
    unstated = [check for check in checks if check.from_rank and context.from_log]
    applicable = [check for check in checks if check.applies(context) and check not in unstated]
    bad: dict[str, dict[int | None, list[tuple[str, Any]]]] = {}
    for name, frame in frames.items():
        of_frame = [check for check in applicable if check.frame == name]
        if of_frame and len(frame):
            bad |= _unexpected(gx, batch_definition, of_frame, frame, context)

    results = []
    for repeat in [_plain(value) for value in frames["repeats"]["repeat"]]:
        for check in applicable:
            if repeat in failed and not check.of_failed:
                continue
            frame = frames[check.frame]
            rows = frame[frame["repeat"] == repeat] if repeat is not None else frame
            if not len(rows):
                continue  # No rank or step: another check reports that they are missing.
            found = bad.get(check.name, {}).get(repeat, [])
            results.append(
                CheckResult(
                    subject=subject,
                    repeat=repeat,
                    check=check.name,
                    severity=check.severity_in(context),
                    success=not found,
                    observed=_bad_words(check, found) if found else _good_words(check, rows),
                    expected=check.expected_in(context),
                )
            )
        if repeat not in failed:
            results += [
                CheckResult(
                    subject=subject,
                    repeat=repeat,
                    check=check.name,
                    severity=Severity.WARN,
                    success=False,
                    observed=NOT_STATED,
                    expected=check.expected_in(context),
                )
                for check in unstated
                if check.applies(context)
            ]
    return results


def _unexpected(
    gx: Any,
    batch_definition: Any,
    checks: Sequence[Check],
    frame: pd.DataFrame,
    context: CheckContext,
) -> dict[str, dict[int | None, list[tuple[str, Any]]]]:
    """Return check -> repeat -> (process, value) of every row that is not as expected."""
    expectations = []
    for check in checks:
        expectation = check.expects(gx.expectations, context)
        expectation.meta = {"check": check.name}
        expectations.append(expectation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # As above.
        outcome = batch_definition.get_batch(batch_parameters={"dataframe": frame}).validate(
            gx.ExpectationSuite(name="suite", expectations=expectations),
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": list(WHERE),
            },
        )
    by_name = {check.name: check for check in checks}
    bad: dict[str, dict[int | None, list[tuple[str, Any]]]] = {}
    for result in outcome.results:
        check = by_name[result.expectation_config.meta["check"]]
        if result.success:
            continue
        rows = result.result.get("unexpected_index_list")
        if not rows:
            raise RuntimeError(
                f"check {check.name} could not be evaluated: {result.exception_info}"
            )
        places: dict[int | None, list[tuple[str, Any]]] = defaultdict(list)
        for row in rows:
            places[_plain(row["repeat"])].append((row["process"], row[check.column]))
        bad[check.name] = places
    return bad


def _plain(value: Any) -> int | None:
    """Return a repeat's number; None for measurements, which pandas writes as NaN."""
    return None if value is None or value != value else int(value)


def _written(check: Check, value: Any) -> str:
    if value is None or value != value:
        return "none"
    return check.show.format(value)


def _bad_words(check: Check, found: Sequence[tuple[str, Any]]) -> str:
    words = [
        f"{process}: {_written(check, value)}" if process else _written(check, value)
        for process, value in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _good_words(check: Check, rows: pd.DataFrame) -> str:
    values = rows[check.column].dropna()
    if not len(values):
        return "none"
    low, high = _written(check, values.min()), _written(check, values.max())
    if low == high:
        return low or "nothing amiss"
    return f"{low} to {high}"
