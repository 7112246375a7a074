"""The tables of a run's suite in its digest: Markdown with links to the figures beside it."""

from __future__ import annotations

import dataclasses
import re
import shutil

import pytest

from nightbench.config import load_catalog, load_suite, locations
from nightbench.config.clusters import cluster_of
from nightbench.config.locations import suite_file
from nightbench.core.model import Case, RunKind, Strategy
from nightbench.core.run_plan import RunPlan, make_plan
from nightbench.night.run_report_data import write_run_tables
from nightbench.report import RunReport, report_text


@pytest.fixture
def plan() -> RunPlan:
    catalog = load_catalog(locations.benchmarks_folder())
    cluster = cluster_of("local", catalog)
    suite = load_suite(suite_file("dgc-bandwidth"), catalog, cluster=cluster, scale="smoke")
    return make_plan(suite, cluster, catalog, run_kind=RunKind.ON_DEMAND)


@pytest.fixture
def measured(loader, given) -> Case:
    case = Case(
        *("resnet50_v1.5", "pytorch", Strategy.COLLECTIVE),
        **{"nodes": 2, "trainers": 2, "batch_size_per_device": 2, "scale": "smoke"},
    )
    run = given.run()
    loader.runs.load(given.batch(run, given.came_back(run, case, (10.0, 11.0, 12.0))))
    return case


def test_a_digest_shows_the_suites_tables_beside_their_figures(plan, measured, reader, tmp_path):
    _, tables = write_run_tables(plan.run, "smoke", reader.tables, tmp_path)
    text = report_text(RunReport(plan.run, [], markdown_tables=tables))
    assert "## Tables\n\n### ResNet-50 by the bandwidth between nodes" in text
    assert "11.00 images/s<br>n 3, spread 18.2 %" in text
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link.rpartition(".")[2] for link in links] == ["png", "svg"]
    assert all((tmp_path / link).stat().st_size > 1000 for link in links)


def test_a_suite_without_medians_shows_no_table(plan, reader, tmp_path):
    assert write_run_tables(plan.run, "smoke", reader.tables, tmp_path) == ([], "")
    assert "## Tables" not in report_text(RunReport(plan.run, []))
    assert list(tmp_path.iterdir()) == []


def test_a_drill_shows_no_table(plan, measured, reader, tmp_path):
    drill = dataclasses.replace(plan.run, run_kind=RunKind.DRILL)
    assert write_run_tables(drill, "smoke", reader.tables, tmp_path) == ([], "")


def test_a_suite_that_is_broken_by_now_says_so(plan, measured, reader, tmp_path, dags_copy):
    path = dags_copy / "suites" / "dgc-bandwidth.yaml"
    path.write_text(path.read_text().replace("frameworks: [paddle1, pytorch]", "frameworks: fke"))
    tables, said = write_run_tables(plan.run, "smoke", reader.tables, tmp_path)
    assert tables == []
    assert said.startswith("Not shown: ")
    assert 'found "fke"' in said


@pytest.fixture
def dags_copy(tmp_path, monkeypatch):
    """The project's dags, to be changed."""
    copy = tmp_path / "dags"
    shutil.copytree(locations.dags_folder(), copy, ignore=shutil.ignore_patterns("*.py", "__py*"))
    monkeypatch.setenv("NIGHTBENCH_DAGS", str(copy))
    return copy
