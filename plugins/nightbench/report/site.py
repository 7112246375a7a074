"""The public site: pages, a JSON file for each page, and a feed; `publish:` selects the content."""

import json
import math
import uuid
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from jinja2 import Template

from nightbench.config import find_suites, load_catalog, load_suite, locations
from nightbench.core.errors import UserError
from nightbench.core.model import Suite
from nightbench.core.model.alerts import CauseKind, ConfirmationResult
from nightbench.core.package_files import PACKAGE
from nightbench.core.sentences import CAUSE_LABELS
from nightbench.report.run_report import hardware_text, templates
from nightbench.report.site_folder import SiteFolder
from nightbench.report.site_series import (
    NEWEST_NIGHTS,
    RECENT,
    SITE,
    SiteSeries,
    change_document,
    five_digits,
    our_figure,
    reference_document,
    scaling,
    series_document,
    series_of,
    series_plots,
    suite_document,
    value_starts,
    version_key,
    work_digest,
)
from nightbench.report.tables import Row
from nightbench.warehouse.site import SiteRepository

_CSS = PACKAGE / "report" / "templates" / "site" / "site.css"
_SCRIPT = PACKAGE / "web" / "static" / "site.js"
"""Built from `web/ui/src/site.ts`."""
NEWEST = 20
"""Changes on the first page; the feed has five times as many."""


def published_suites() -> tuple[list[Suite], UserError | None]:
    """Return the suites with `publish`, by name, and the error to raise once they are published.

    A suite whose file is wrong publishes nothing, as its `publish` may be what is wrong.

    Raises:
        UserError: no suite is left.
    """
    catalog, loaded, wrong = load_catalog(), [], []
    for path in find_suites(locations.dags_folder()).values():
        try:
            loaded.append(load_suite(path, catalog))
        except UserError as error:
            wrong.append(str(error))
    found = [suite for suite in loaded if suite.publish is not None]
    if not found and not wrong:
        raise UserError(
            f"{locations.dags_folder() / 'suites'}: found no suite with `publish:`; expected at "
            "least one, such as `publish: {}` (docs/publish.md). Until then, no page is written"
        )
    refused = UserError("not published: " + "\n".join(wrong)) if wrong else None
    if refused and not found:
        raise refused
    return found, refused


class SiteWriter:
    """Writes the site of some suites; the feed needs `url`, the address of the site."""

    def __init__(
        self, suites: Sequence[Suite], stored: SiteRepository, folder: SiteFolder, url: str = ""
    ) -> None:
        self._suites, self._stored, self._folder = suites, stored, folder
        self._url = url.rstrip("/") + "/" if url else ""
        self._shown: list[SiteSeries] = []
        self._groups: dict[tuple[str, str], list[SiteSeries]] = defaultdict(list)
        """Workload and line -> their series."""

    def write(self) -> int:
        """Write what differs; return how many series the site has."""
        stored = self._stored
        series, references = stored.shown("site_series"), stored.shown("site_references")
        changes = self._changes(series)
        self._folder.begin(_names(series, references))
        beside: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in references:
            if row["published_value"] is not None and row["case_id"]:
                beside[row["case_id"], row["cluster"]].append(row)
        own: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for change in changes:
            own[change["case_id"], change["cluster"]].append(change)
        for row, points in self._stored.points(series):
            key = (row["case_id"], row["cluster"])
            one = series_of(row, points, own[key])
            self._shown.append(one)
            self._groups[row["workload"], row["framework"]].append(one)
            self._series_page(one, points, beside[key])
        for (workload, line), each in sorted(self._groups.items()):
            self._group_page(workload, line, each)
        self._compare_page()
        self._published_pages(references)
        self._method_page()
        self._changes_pages(changes)
        self._index_page(changes)
        for path in (_CSS, _SCRIPT):
            self._folder.put(path.name, path.read_text(encoding="utf-8"))
        self._folder.finish()
        return len(series)

    def _changes(self, series: Sequence[Row]) -> list[dict[str, Any]]:
        """Return the changes of these series, each with the pages that changed with it."""
        shown = {(row["case_id"], row["cluster"]) for row in series}
        found = [
            dict(row)
            for row in self._stored.shown("site_changes")
            if (row["case_id"], row["cluster"]) in shown
        ]
        groups: dict[tuple[str, date, str], list[Row]] = defaultdict(list)
        for row in found:
            if row["group_key"]:
                groups[row["cluster"], row["opened_at"].date(), row["group_key"]].append(row)
        for row in found:
            # Removed after the comparison, because it may name a node.
            key = (row["cluster"], row["opened_at"].date(), row.pop("group_key"))
            row["with"] = [
                f"s/{x['cluster']}/{x['case_id']}" for x in groups.get(key, ()) if x is not row
            ]
            row["builds"] = None
            row["page"] = f"s/{row['cluster']}/{row['case_id']}"
            row["is_confirmed"] = row["confirmation"] == ConfirmationResult.CONFIRMED
            kind = row["cause"]
            row["cause_label"] = CAUSE_LABELS.get(CauseKind(kind)) if kind else None
        return found

    def _put(self, name: str, template: str, title: str, document: Any, **values: Any) -> None:
        """Write a page with its JSON beside it."""
        root = "../" * name.count("/")
        page = _template(template).render(
            root=root, name=name, title=title, url=self._url, **values
        )
        self._folder.put(f"{name}.html", page)
        self._folder.put(f"{name}.json", _json(document))

    def _series_page(self, one: SiteSeries, points: Row, beside: Sequence[Row]) -> None:
        row, at = one.row, points["at"]
        document = {
            "schema": "nightbench.site.series/1",
            **{name: row[name] for name in ("case_id", "cluster", "axes", "is_synthetic")},
            "unit": f"{one.unit}/s",
            "untried": one.untried,
            "points": {
                "at": at,
                **{
                    name: list(map(five_digits, points[name])) for name in ("median", "low", "high")
                },
                "n": points["n"],
            },
            "versions": value_starts(points["version"]),
            "builds": value_starts(points["build"]),
            "definitions": value_starts(points["definition"]),
            "nodes": value_starts(points["node_names"]),
            "changes": [change_document(change) for change in one.changes],
            "published": [reference_document(each) for each in beside],
        }
        newest = range(len(at) - 1, max(-1, len(at) - 1 - NEWEST_NIGHTS), -1)
        self._put(
            one.page,
            "series.html",
            f"{row['case_id']} on {row['cluster']}",
            document,
            series=one,
            plots=series_plots(one, points),
            nights=[
                {name: x[i] for name, x in points.items() if isinstance(x, list)} for i in newest
            ],
            count=len(at),
            beside=beside,
            has_nodes=any(points["node_names"]),
        )

    def _group_page(self, workload: str, line: str, own: Sequence[SiteSeries]) -> None:
        document = {
            "schema": "nightbench.site.series_list/1",
            "series": [series_document(one) for one in own],
        }
        self._put(
            f"w/{workload}/{line}",
            "group.html",
            f"{workload} with {line}",
            document,
            workload=workload,
            line=line,
            series=own,
            plots=list(scaling(own)),
        )

    def _compare_page(self) -> None:
        sides: dict[str, list[str]] = {}
        by_line: dict[str, list[SiteSeries]] = defaultdict(list)
        for one in self._shown:
            by_line[one.row["framework"]].append(one)
        for line, own in sorted(by_line.items()):
            newest: dict[str, datetime] = {}
            for one in own:
                for side, *_ in one.sides:
                    newest[side] = max(one.at, newest.get(side, one.at))
            sides[line] = sorted(newest, key=version_key, reverse=True)
            number = {side: i for i, side in enumerate(sides[line])}
            rows = [
                [
                    one.row["case_id"],
                    one.row["cluster"],
                    one.unit,
                    work_digest(one.row),
                    [[number[s], five_digits(v), five_digits(h), d] for s, v, h, d in one.sides],
                ]
                for one in own
            ]
            data = _json({"line": line, "series": rows})
            self._folder.put(f"compare/{line}.js", f"nightbenchSite({data})\n")
        document = {"schema": "nightbench.site.compare/1", "builds": sides}
        data = _json(sides).replace("<", "\\u003c")
        self._put("compare", "compare.html", "Compare builds and lines", document, data=data)

    def _published_pages(self, references: Sequence[Row]) -> None:
        listed = []
        for source, rows in groupby(references, itemgetter("source_document")):
            tables: dict[str, list[tuple[Row, list[Row]]]] = defaultdict(list)
            for _, matches in groupby(rows, itemgetter("figure", "reference_id")):
                first, *others = matches
                ours = [row for row in (first, *others) if row["case_id"]]
                tables[first["figure"]].append((first, ours))
            cells = [cell for each in tables.values() for cell in each]
            listed.append((source, len(cells), sum(bool(ours) for _, ours in cells)))
            self._put(
                f"published/{source}",
                "published.html",
                f"{source}: published and measured values",
                {
                    "schema": "nightbench.site.published/1",
                    "cells": [
                        {**reference_document(first), "ours": [our_figure(x) for x in ours]}
                        for first, ours in cells
                    ],
                },
                source=source,
                tables=tables,
            )
        self._put(
            "published",
            "published_list.html",
            "Published tables and measured values",
            {"schema": "nightbench.site.published_list/1", "documents": listed},
            documents=listed,
        )

    def _method_page(self) -> None:
        hardware = [
            {**row, "hardware": hardware_text(row["hardware"])}
            for row in self._stored.shown("site_hardware")
        ]
        suites = [suite_document(suite) for suite in self._suites]
        self._put(
            "method",
            "method.html",
            "Hardware and method",
            {"schema": "nightbench.site.method/1", "hardware": hardware, "suites": suites},
            hardware=hardware,
            suites=suites,
        )

    def _changes_pages(self, changes: Sequence[Row]) -> None:
        confirmed = [change for change in changes if change["is_confirmed"]][: 5 * NEWEST]
        self._put(
            "changes",
            "changes.html",
            "Confirmed changes",
            {
                "schema": "nightbench.site.changes/1",
                "changes": [change_document(change) for change in confirmed],
            },
            changes=confirmed,
        )
        newest = max((one.at for one in self._shown), default=datetime.fromtimestamp(0, UTC))
        feed = _template("changes.xml").render(
            changes=confirmed,
            url=self._url,
            feed_id=uuid.uuid5(SITE, self._url),
            ids={
                change["alert_id"]: uuid.uuid5(SITE, f"{change['page']}#{change['alert_id']}")
                for change in confirmed
            },
            updated=confirmed[0]["opened_at"] if confirmed else newest,
        )
        self._folder.put("changes.xml", feed)

    def _index_page(self, changes: Sequence[Row]) -> None:
        cells: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
        for (workload, line), own in sorted(self._groups.items()):
            best = max(own, key=lambda one: one.newest)
            trends = [math.log1p(one.trend) for one in own if one.trend is not None]
            cells[workload][line] = {
                "series": len(own),
                "best": best,
                "trend": math.expm1(sum(trends) / len(trends)) if trends else None,
            }
        documents = [series_document(one) for one in self._shown]
        rows = [
            [each["case_id"], each["cluster"], each["median"], each["unit"], each["trend"]]
            for each in documents
        ]
        self._folder.put("search.js", f"nightbenchSite({_json({'search': rows})})\n")
        newest = max((one.at for one in self._shown), default=None)
        self._put(
            "index",
            "index.html",
            "Benchmarks by night",
            {"schema": "nightbench.site.series_list/1", "series": documents},
            lines=sorted({line for _, line in self._groups}),
            cells=cells,
            clusters=sorted({one.row["cluster"] for one in self._shown}),
            count=len(self._shown),
            newest=newest,
            recent=RECENT,
            changes=[change for change in changes if change["is_confirmed"]][:NEWEST],
        )


def _names(series: Sequence[Row], references: Sequence[Row]) -> set[str]:
    """Return the names of all files that the site will have."""
    pages = {f"s/{row['cluster']}/{row['case_id']}" for row in series}
    pages |= {f"w/{row['workload']}/{row['framework']}" for row in series}
    pages |= {f"published/{row['source_document']}" for row in references}
    pages |= {"index", "compare", "published", "method", "changes"}
    scripts = {f"compare/{row['framework']}.js" for row in series}
    other = {"changes.xml", "search.js", "site.css", "site.js"}
    return {f"{page}.{kind}" for page in pages for kind in ("html", "json")} | scripts | other


def _json(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON: {type(value)}")


@cache
def _template(name: str) -> Template:
    return templates().get_template(f"site/{name}")
