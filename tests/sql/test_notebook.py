"""docs/notebooks: every cell runs over what `nightbench export` writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.integration.terminal import REPO
from typer.testing import CliRunner

from nightbench.cli.main import app
from nightbench.core.model import Verdict, VerdictKind

NOTEBOOK = REPO / "docs/notebooks/ten-questions.ipynb"


@pytest.fixture
def answers(warehouse, loader, given, tmp_path, monkeypatch):
    """What the notebook answers over ten nights of two lines, of which one fell."""
    case, larger, jax = given.case(), given.case(nodes=2), given.case(framework="jax")
    for night in range(10):
        run = given.run(night)
        levels = {case: 100.0 if night < 5 else 90.0, larger: 180.0, jax: 50.0}
        scaled = {"speedup": 1.8, "efficiency": 0.9, "baseline_case_id": case.case_id}
        more = {larger: scaled}
        came = [
            given.came_back(run, each, (level,) * 3, **more.get(each, {}))
            for each, level in levels.items()
        ]
        loader.runs.load(given.batch(run, *came))
    fell = (VerdictKind.REGRESSED, "", 90.0, 100.0, -0.1)
    loader.series.store_verdicts([Verdict(case.case_id, "local", run.run_id, *fell)])
    monkeypatch.setenv("NIGHTBENCH_WAREHOUSE", warehouse.reader)
    monkeypatch.setenv("NIGHTBENCH_EXPORT", str(tmp_path))
    for file, words in (("history", ()), ("verdicts", ("--rows", "verdicts"))):
        command = ["export", str(tmp_path / f"{file}.parquet"), *words]
        CliRunner().invoke(app, command, catch_exceptions=False)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return names["answers"]


def test_each_question_has_its_answer(answers):
    assert len(answers) == 10
    assert answers["series"]["medians"].tolist() == [30]
    assert answers["newest"]["throughput"].tolist() == [50.0, 90.0, 180.0]
    (fastest,) = answers["fastest"].to_dict("records")
    assert (fastest["fastest"], fastest["over_slowest"]) == ("pytorch", pytest.approx(1.8))
    assert answers["scaling"][["nodes", "speedup"]].values.tolist() == [[2, 1.8]]
    assert answers["found"][["verdict", "nights"]].values.tolist() == [["regressed", 1]]
    assert (answers["noise"]["nights"] == 10).all()
    assert answers["moved"]["level"].iloc[-1] in (0.9, 1.0)
    assert not any(table.empty for table in answers.values())
