"""How long the warehouse takes at size: every shipped query, loading a night, judging it.

    python -m tests.performance warehouse [--series 500] [--nights 365] [--keep FOLDER]

A PostgreSQL of its own, as `nightbench up` starts one, is filled with a history; each figure is
one line of JSON on stdout: `name`, `milliseconds` (the median of up to five calls after a first
one), `rows`, and `whole`, which is true if a query goes over all series and years. `_one`
stands for a query of one thing where the same statement can go over all, `_unpartitioned` for the
same query on a copy of raw.measurement without partitions; `publish` and `publish_again` for the
site of all suites, each called once, with the files that it wrote as rows. Where FOLDER
holds a history of an earlier call, that is measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.performance.warehouse.history import NIGHTS_OF_RANKS, opened
from tests.performance.warehouse.night import measure_night
from tests.performance.warehouse.reads import Figure, measure_reads
from tests.performance.warehouse.site import measure_site

from nightbench.core.errors import UserError


def main(words: list[str]) -> int:
    """The command line; prints the figures."""
    parser = argparse.ArgumentParser(
        prog="tests.performance warehouse",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument(
        "--nights-of-ranks",
        type=int,
        default=NIGHTS_OF_RANKS,
        help="the last nights, whose ranks have their steps; 30 kB for each median of them",
    )
    parser.add_argument("--keep", type=Path, help="folder of the server; stays, to be used again")
    parser.add_argument(
        "--only", help="measure only the queries with this in their names, `publish` or `judge`"
    )
    asked = parser.parse_args(words)
    if asked.series < 1 or asked.nights < 2:
        parser.error("expected one series and two nights at least")
    try:
        with opened(asked.series, asked.nights, asked.nights_of_ranks, asked.keep) as history:
            for figure in measure_reads(history, asked.only):
                _print(figure)
            if asked.only is None or asked.only in "publish":
                for figure in measure_site(history):
                    _print(figure)
            if asked.only is None or asked.only in "judge_night":
                for figure in measure_night(history):
                    _print(figure)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _print(figure: Figure) -> None:
    print(json.dumps(vars(figure)), flush=True)
