"""publish: write a public site with the results that the suites allow."""

import time
from contextlib import closing
from typing import Annotated

import typer

from nightbench.cli import common
from nightbench.cli.common import say

app = typer.Typer()


@app.command()
def publish(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Empty folder, or folder of an earlier site. Also as fsspec URL (s3://bucket/site).",
        ),
    ],
    url: Annotated[
        str, typer.Option(help="URL of the published site, for the feed and permanent links.")
    ] = "",
) -> None:
    """Write a static site with the results: series, changes, comparisons, tables and method.

    Each page also exists as JSON. The key `publish` of the suites selects the results. Only changed
    files are written. Exit code 1: a suite's file is wrong; the site has the other suites.
    """
    from nightbench.report.site import SiteWriter, published_suites
    from nightbench.report.site_folder import SiteFolder
    from nightbench.warehouse.site import SiteRepository

    began = time.monotonic()
    suites, refused = published_suites()
    made = SiteFolder(folder)
    with closing(common.open_warehouse("nightbench_reader")) as connection:
        count = SiteWriter(suites, SiteRepository(connection, suites), made, url).write()
    say(f"{made.root}: {count:,} series of {len(suites)} suites; {made.summary}")
    if not count:
        say("no night of these suites has a median yet; manual runs are not published")
    say(f"{time.monotonic() - began:.1f} s; open {made.root}/index.html")
    if refused:
        raise refused
