"""`nightbench results --report` on a warehouse: what page and Markdown show, and what they load."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.integration.terminal import REPO
from tests.sql.nights import STEADY
from tests.sql.spooled import spooled
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus, Reason, ReasonCode, Verdict, VerdictKind
from nightbench.night.ingest import ingest_run
from nightbench.night.run_report_data import write_run_report
from nightbench.warehouse import connect

NIGHTS = 10
HOSTILE = "<script>alert('x')</script> & \"quotes\""


@pytest.fixture
def run(loader, given, monkeypatch, warehouse, tmp_path):
    """The last of ten nights: slower, ok, improved, quarantined, failed and missing."""
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)
    slow, same, fast = (given.case(batch_size_per_device=size) for size in (2, 4, 8))
    refused, failed, missing = (given.case(batch_size_per_device=size) for size in (16, 32, 64))
    for night in range(NIGHTS):
        run = given.run(night, requested_by=HOSTILE)
        last = night == NIGHTS - 1
        wave = 100.0 + (night * 7) % 5 - 2
        factors = {slow: 0.88 if last else 1.0, same: 1.0, fast: 1.1 if last else 1.0}
        cases = [
            given.came_back(run, case, tuple(wave * factor * k for k in (0.99, 1.0, 1.01)))
            for case, factor in factors.items()
        ]
        if last:
            check = replace(given.failed_check(), observed=HOSTILE)
            cases.append(given.came_back(run, refused, (50.0, 51.0, 52.0), checks=(check,)))
            reason = Reason(ReasonCode.PROCESS_EXITED, "n1", "trainer-0", "code 1", "code 0")
            broken = given.came_back(
                run,
                failed,
                (1.0,),
                status=CaseStatus.FAILED,
                reasons=(reason,),
                throughput=None,
                n=0,
            )
            cases.append(replace(broken, status=CaseStatus.FAILED, reasons=(reason,), repeats=()))
        loader.runs.load(given.batch(run, *cases, missing=(missing,) if last else ()))
    said = f"12.0 % below the median of the last nights; {HOSTILE}"
    found = (run.run_id, VerdictKind.REGRESSED, said, 88.0, 100.0, -0.12)
    ok = (run.run_id, VerdictKind.OK, "like the nights before", 98.0, 100.0, -0.02)
    up = (run.run_id, VerdictKind.IMPROVED, "faster", 110.0, 100.0, 0.10)
    loader.series.store_verdicts(
        Verdict(
            case.case_id,
            "local",
            *given_verdict,
            low=given_verdict[-1] - 0.02,
            high=given_verdict[-1] + 0.02,
        )
        for case, given_verdict in ((slow, found), (same, ok), (fast, up))
    )
    return run


def report(*words: object) -> str:
    done = CliRunner().invoke(app, ["results", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


class Elements(HTMLParser):
    """Names of the elements of a page, and the values of attributes that load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "data")]


def test_the_page_shows_everything_and_loads_nothing(run, tmp_path):
    page = tmp_path / "page.html"
    report("--run", run.run_id, "--report", page)
    text = page.read_text(encoding="utf-8")
    found = Elements(text)
    assert "script" not in found.names
    assert found.loaded == []
    assert not re.search(r"url\(|@import|https?://", text)
    assert text.count("<script") == 0
    assert "&lt;script&gt;alert(&#39;x&#39;)" in text
    # Regressed, ok and improved have a history and an interval each.
    assert found.names.count("figure") == found.names.count("figcaption") == 3
    assert found.names.count("svg") == 6
    assert "10 nights, 2026-03-01 to 2026-03-10" in text
    for said in (
        "6 cases: 1 regressed, 1 failed, 1 missing, 1 quarantined, 1 improved, 1 ok",
        "-12.0 % (-14.0 % to -10.0 %)",
        "3 of 3 measured cases trained on synthetic data",
        "Quarantined, does not count",
        "A repeat is a new launch of all processes on all nodes",
        "2.13.0+cpu",
        "no fingerprint",
    ):
        assert said in text, said


def test_the_worst_stands_first(run, tmp_path):
    page = tmp_path / "page.html"
    report("--run", run.run_id, "--report", page)
    words = re.findall(r'<td data-label="verdict"><span><span class="word (\w+)"', page.read_text())
    assert words == ["regressed", "failed", "missing", "quarantined", "improved", "ok"]


def test_markdown_says_the_same(run, tmp_path):
    file = tmp_path / "run.md"
    report("--run", run.run_id, "--report", file)
    text = file.read_text(encoding="utf-8")
    for heading in (
        "Verdicts",
        "Before you compare these values",
        "Method",
        "Hardware",
        "Versions",
    ):
        assert f"\n## {heading}\n" in text
    assert "- pytorch 2.13.0+cpu, Python 3.11.7 (pytorch-cpu-index-2.13.0)" in text


@pytest.mark.parametrize("words", [(), ("--suite", "demo"), ("--cluster", "local")])
def test_the_newest_run_is_meant(run, tmp_path, words):
    file = tmp_path / "newest.html"
    assert report(*words, "--report", file) == f"{file}: 6 cases of {run.run_id}\n"
    assert file.is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--run", "nobody"), '--run: found "nobody"; expected the id of a loaded run'),
        (("--suite", "demo", "--cluster", "far"), "found no loaded run of demo on far"),
        (("--run", "x", "--suite", "demo"), "--run cannot be combined with --suite or --cluster"),
    ],
)
def test_what_has_no_run_is_named(run, tmp_path, words, said):
    with pytest.raises(UserError, match=said):
        report(*words, "--report", tmp_path / "x.html")


def test_a_report_is_a_page_or_markdown(run, tmp_path):
    with pytest.raises(UserError, match=r"expected a file \*.html or \*.md"):
        report("--report", tmp_path / "report.pdf")


def test_a_night_keeps_both_formats_with_protocol_and_hardware(spool, warehouse, given, tmp_path):
    document = json.loads((REPO / "tests/contract/golden/fingerprint.json").read_text())
    night = given.run(0)
    stored = spooled(spool, night, {STEADY: 100.0}, fingerprint=document)
    ingest_run(spool, night.run_id, lambda: connect(warehouse.loader))
    said, path = write_run_report(stored, lambda: connect(warehouse.reader), tmp_path, ["note"])
    assert said == "1 cases: 1 not judged"
    assert sorted(each.suffix for each in tmp_path.glob("*.*")) == [".html", ".md"]
    for text in (path.read_text(), path.with_suffix(".html").read_text()):
        assert "Protocol: 3 repeats of each case. Each repeat ignores 1 warm-up steps" in text
        assert "AMD EPYC, 1 socket, 2 cores, 2 threads, 24 GiB; kernel 6.18.44" in text
        assert "The nodes of local are shared" in text
        assert "note" in text
