"""`nightbench publish`: what leaves and what never does, links, and what a second call writes."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fsspec
import pytest
from psycopg2.extras import Json
from tests.integration.terminal import REPO
from tests.sql.given import Given
from typer.testing import CliRunner, Result

from nightbench.cli.main import app
from nightbench.core.documents import to_document
from nightbench.core.model import RunKind, Verdict, VerdictKind
from nightbench.core.model.alerts import Confirmation, ConfirmationResult
from nightbench.core.model.experiments import NIGHTBENCH, Experiment, ExperimentKind
from nightbench.warehouse import Triage, Warehouse
from nightbench.warehouse.connection import Connection

NODE, OWNER, NOTE = "secretnode7", "ada.lovelace", "wrote this at home"
SUITE, DESCRIPTION, PERSON = "hushed-suite", "made for our customer", "grace.hopper"
PRIVATE = (NODE, OWNER, NOTE, SUITE, DESCRIPTION, PERSON, "9876.5", "bs63", "bs127")
"""Names and words, and the figures of what is no night of a suite that is published."""
NIGHTS = 12


class Links(HTMLParser):
    """What a page links and loads, and the places that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.targets += [found[name] or "" for name in ("href", "src") if name in found]
        self.ids.add(found.get("id") or "")


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "dags"
    for name in ("clusters/local.yaml", "suites/demo.yaml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPO / "dags" / name, folder / name)
    demo = (folder / "suites/demo.yaml").read_text().replace("owner: benchmarks", f"owner: {OWNER}")
    demo = re.sub("description: .*", f"description: {DESCRIPTION}", demo)
    (folder / f"suites/{SUITE}.yaml").write_text(demo.replace("suite: demo", f"suite: {SUITE}"))
    (folder / "suites/demo.yaml").write_text(f"{demo}publish: {{}}\n")
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(folder))
    return folder


@pytest.fixture
def history(
    loader: Warehouse, given: Given, connection: Connection, triage: Triage, dags: Path, roles: None
) -> int:
    """Nights of two sizes with a confirmed fall, beside what must stay; the id of its alert."""
    small, large = given.case(), given.case(2)
    (hidden, by_hand) = (given.case(batch_size_per_device=size) for size in (63, 127))
    for night in range(NIGHTS):
        run = given.run(night, requested_by=PERSON)
        factor = 0.9 if night > NIGHTS - 3 else 1.0
        throughputs = tuple(factor * x for x in (99.0, 100.0, 101.0))
        cases = [
            given.came_back(run, case, tuple(case.nodes * x for x in throughputs), nodes=nodes)
            for case, nodes in ((small, (NODE,)), (large, (NODE, "n2")))
        ]
        batch = given.batch(run, *cases)
        hardware = {"node": NODE, "host": NODE, "cpu": {"model": "CPU 9000", "cores": 4}}
        fingerprints = {**batch.fingerprints, f"fp-{NODE}": hardware}
        loader.runs.load(replace(batch, fingerprints=fingerprints))
    last = run
    for more, case in (
        ({"suite": SUITE}, hidden),
        ({"run_kind": RunKind.ON_DEMAND, "tail": "aaaa"}, by_hand),
        ({"suite": SUITE, "tail": "bbbb"}, small),
        ({"run_kind": RunKind.ON_DEMAND, "tail": "cccc"}, small),
    ):
        other = given.run(NIGHTS, **more)
        loader.runs.load(given.batch(other, given.came_back(other, case, (9876.5,) * 3)))
    private = given.run(NIGHTS + 1)
    batch = given.batch(private, given.came_back(private, small, (9876.5,) * 3))
    planned = tuple(replace(each, private_build=True) for each in batch.planned)
    loader.runs.load(replace(batch, planned=planned))
    found = Verdict(
        small.case_id, "local", last.run_id, VerdictKind.REGRESSED, f"slow on {NODE}", 90.0, 100.0,
        -0.1, low=-0.12, high=-0.08,
    )  # fmt: skip
    loader.series.store_verdicts([found])
    loader.alerts.open(found)
    alert_id = int(loader.alerts.find()[0]["alert_id"])
    loader.alerts.change("route_alert", alert_id, OWNER, last.run_id)
    triage.move(alert_id, "acknowledged", NOTE)
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "insert into raw.alert_cause (alert_id, run_id, kind, suspect, sentence, evidence, "
            "group_key, night) values (%s, %s, 'node', %s, %s, %s, %s, %s)",
            (alert_id, last.run_id, NODE, f"All on {NODE}", Json([]), NODE, last.started_at),
        )
    where = (last.suite, "local", NIGHTBENCH)
    more = {"alert_id": alert_id, "run_id": last.run_id}
    loader.experiments.add(Experiment("c1", ExperimentKind.CONFIRM, {}, *where, **more))
    assert loader.experiments.begin("c1", "run-1")
    found = Confirmation(ConfirmationResult.CONFIRMED, f"on {NODE}", 0.9, 0.89, 0.91, 5)
    loader.experiments.leave("c1", "run-1", "done", spent_s=1.0, result=to_document(found))
    return alert_id


def publish(*words: object) -> Result:
    return CliRunner().invoke(app, ["publish", *map(str, words)])


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def check_links(site: Path, anchor_of_feed: str) -> None:
    """Every link of a page leads to a file of the site, and to a place of it; so does the feed."""
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 10
    for path, links in pages.items():
        for target in links.targets:
            if target == "data:,":
                continue
            if target.startswith("https://bench.example/"):
                target = "/" + target.removeprefix("https://bench.example/")
            name, _, anchor = target.partition("#")
            base = site if name.startswith("/") else path.parent
            found = (base / name.lstrip("/")).resolve() if name else path
            assert found.is_file(), f"{path}: {target}"
            if anchor:
                assert anchor in pages[found].ids or anchor == "main", f"{path}: {target}"
    atom = "{http://www.w3.org/2005/Atom}"
    (entry,) = ElementTree.parse(site / "changes.xml").getroot().findall(f"{atom}entry")
    link = entry.find(f"{atom}link")
    assert link is not None
    assert link.attrib["href"].endswith(anchor_of_feed)


def document(site: Path, name: str) -> Any:
    return json.loads((site / name).read_text())


def test_what_no_suite_names_is_in_no_file(history: int, tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = publish(site, "--url", "https://bench.example")
    assert done.exit_code == 0, done.output
    check_links(site, f"/s/local/{_page(1)}.html#change-{history}")
    for name, content in files(site).items():
        for word in PRIVATE:
            assert word.encode() not in content, f"{name} holds {word}"
            assert word not in name
    small, large = (f"s/local/{given}" for given in (_page(1), _page(2)))
    series = document(site, f"{small}.json")
    assert series["points"]["median"] == [100.0] * (NIGHTS - 2) + [90.0] * 2
    assert series["nodes"] == []
    (change,) = series["changes"]
    assert (change["confirmation"], change["cause"], change["notes"]) == ("confirmed", "node", None)
    page = (site / f"{small}.html").read_text()
    assert "Likely cause: a slow node" in page
    assert f'id="change-{history}"' in page
    assert document(site, "method.json")["hardware"][0]["hardware"] == "CPU 9000, 4 cores"
    listed = document(site, "index.json")["series"]
    assert [each["page"] for each in listed] == [f"{small}.html", f"{large}.html"]
    assert "Speed-up over ranks" in (site / "w/resnet50_v1.5/pytorch.html").read_text()


def test_what_a_suite_names_leaves(history: int, dags: Path, tmp_path: Path) -> None:
    suite = dags / "suites/demo.yaml"
    every = "publish: {nodes: true, owner: true, notes: true}"
    suite.write_text(suite.read_text().replace("publish: {}", every))
    assert publish(tmp_path / "site").exit_code == 0
    page = (tmp_path / f"site/s/local/{_page(1)}.html").read_text()
    assert f"All on {NODE}" in page
    assert NOTE in page
    method = (tmp_path / "site/method.html").read_text()
    assert OWNER in method
    assert DESCRIPTION in method
    everything = b"".join(files(tmp_path / "site").values())
    assert PERSON.encode() not in everything
    assert b"9876.5" not in everything


def test_a_second_call_writes_what_changed_and_removes_only_its_own(
    history: int, loader: Warehouse, given: Given, dags: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "thesis.tex").write_text("years of work")
    refused = publish(site)
    assert refused.exit_code == 1
    assert "found 1 files and no site-manifest.json" in str(refused.exception)
    assert set(files(site)) == {"thesis.tex"}
    (site / "thesis.tex").unlink()
    publish(site)
    first = files(site)
    assert "; 0 of" in publish(site).output
    assert files(site) == first
    assert publish("memory://bucket/site").exit_code == 0
    store = fsspec.filesystem("memory")
    assert {x.removeprefix("/bucket/site/"): store.cat(x) for x in store.find("/bucket")} == first
    assert "; 0 of" in publish("memory://bucket/site").output
    run = given.run(NIGHTS + 2)
    loader.runs.load(given.batch(run, given.came_back(run, given.case(), (91.0,) * 3)))
    (site / "CNAME").write_text("bench.example")
    assert publish(site).exit_code == 0
    second = files(site)
    changed = {name for name, content in second.items() if first.get(name) != content}
    assert f"s/local/{_page(1)}.html" in changed
    assert not changed & {f"s/local/{_page(2)}.html", "method.html", "published.html", "site.js"}
    (site / f"s/local/{_page(2)}.html").unlink()
    publish(site)
    assert files(site) == second, "what somebody removed is written again"
    suite = dags / "suites/demo.yaml"
    suite.write_text(suite.read_text().replace("publish: {}", "publish: {workloads: [ctr_dnn]}"))
    assert publish(site).exit_code == 0
    left = files(site)
    assert "CNAME" in left
    assert not [name for name in left if name.startswith(("s/", "w/"))]
    assert not (site / "s").exists()


def test_without_a_suite_that_says_so_nothing_leaves(
    roles: None, dags: Path, tmp_path: Path
) -> None:
    suite = dags / "suites/demo.yaml"
    suite.write_text(suite.read_text().replace("publish: {}", ""))
    done = publish(tmp_path / "site")
    assert done.exit_code == 1
    assert "found no suite with `publish:`" in str(done.exception)
    assert not (tmp_path / "site").exists()


def test_a_site_without_a_night_says_why_it_is_empty(
    loader: Warehouse, given: Given, roles: None, dags: Path, tmp_path: Path
) -> None:
    by_hand = given.run(0, run_kind=RunKind.ON_DEMAND)
    loader.runs.load(given.batch(by_hand, given.came_back(by_hand, given.case())))
    done = publish(tmp_path / "site")
    assert done.exit_code == 0, done.output
    assert "0 series of 1 suites" in done.output
    assert "no night of these suites has a median yet; manual runs" in done.output
    night = given.run(1)
    loader.runs.load(given.batch(night, given.came_back(night, given.case())))
    assert "no night of these suites" not in publish(tmp_path / "site").output


def _page(nodes: int) -> str:
    return Given().case(nodes).case_id
