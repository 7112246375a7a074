"""Great Expectations: loads it, and holds pairs of numbers and of texts.

A validation costs 15 ms of CPU for each expectation, whatever the frame holds, and as much again to
say which rows are unexpected. So there are two, on one frame for all values.
"""

from __future__ import annotations

import functools
import gc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Pair = tuple[Any, Any, Any, Any]
"""(greater, less, text, expected text): one number is at least the other, and the texts are equal;
either two are left out if one is null."""


class _Later:
    """Finds what Great Expectations imports for checks not ours; it runs when it is used."""

    names = ("altair", "boto3", "scipy.stats")

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in cls.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


@contextmanager
def _light_imports() -> Iterator[None]:
    """Import without garbage collection: 2.2 s of CPU instead of 3.6 s, as the objects stay."""
    collects = gc.isenabled()
    sys.meta_path.insert(0, _Later)
    gc.disable()
    try:
        yield
    finally:
        sys.meta_path.remove(_Later)
        if collects:
            gc.enable()


@functools.cache
def load_great_expectations() -> tuple[Any, Any]:
    """Return the package and a batch definition for frames, made once for each process."""
    # Read while the package is imported: it posts usage events to a public host otherwise.
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with warnings.catch_warnings(), _light_imports():
        # Deprecations inside Great Expectations cannot be fixed by the user.
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


def unexpected(values: Sequence[Sequence[Pair]]) -> list[bool]:
    """Return of every value, given as its pairs, whether one is not met."""
    bad = [False] * len(values)
    rows = [(*pair, number) for number, pairs in enumerate(values) for pair in pairs]
    if not rows:
        return bad
    import pandas as pd

    gx, batch_definition = load_great_expectations()
    frame = pd.DataFrame(rows, columns=["greater", "less", "text", "expected", "row"])
    frame = frame.astype({"greater": "float64", "less": "float64"})
    skips = {"ignore_row_if": "either_value_is_missing"}
    expectations = [
        gx.expectations.ExpectColumnPairValuesAToBeGreaterThanB(
            column_A="greater", column_B="less", or_equal=True, **skips
        ),
        gx.expectations.ExpectColumnPairValuesToBeEqual(
            column_A="text", column_B="expected", **skips
        ),
    ]
    complete = {"result_format": "COMPLETE", "unexpected_index_column_names": ["row"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # As above.
        batch = batch_definition.get_batch(batch_parameters={"dataframe": frame})
        suite = gx.ExpectationSuite(name="suite", expectations=expectations)
        # Listing the wrong rows takes longer than finding whether there are any.
        if batch.validate(suite, result_format="BOOLEAN_ONLY").success:
            return bad
        outcome = batch.validate(suite, result_format=complete)
    for result in outcome.results:
        places = result.result.get("unexpected_index_list")
        if not (result.success or places):
            raise RuntimeError(f"checks could not be evaluated: {result.exception_info}")
        for place in places or ():
            bad[place["row"]] = True
    return bad
