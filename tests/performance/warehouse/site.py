"""Times `nightbench publish`: all suites of a history, into an empty folder and once more."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing

from tests.performance.warehouse.history import SUITES, History
from tests.performance.warehouse.reads import READER_S, Figure

from nightbench.core.model import Protocol, Suite
from nightbench.core.model.suites import Publication
from nightbench.report.site import SiteWriter
from nightbench.report.site_folder import SiteFolder
from nightbench.warehouse.site import SiteRepository


def measure_site(history: History) -> Iterator[Figure]:
    """Yield the figures of both calls; their rows are the files that were written."""
    suites = [
        Suite(f"{suite}_{cluster}", "benchmark", cluster, (), Protocol(), publish=Publication())
        for suite, cluster, _ in SUITES
    ]
    with (
        tempfile.TemporaryDirectory() as root,
        closing(history.connect("nightbench_reader", READER_S)) as connection,
    ):
        for name in ("publish", "publish_again"):
            began, folder = time.perf_counter(), SiteFolder(root)
            SiteWriter(suites, SiteRepository(connection, suites), folder).write()
            spent = time.perf_counter() - began
            yield Figure(name, round(1000 * spent, 3), folder.written, whole=True)
