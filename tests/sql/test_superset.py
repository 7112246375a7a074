"""The Superset dashboard: datasets are views of the reader, charts ask for what they have."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml

from nightbench.core.package_files import CHECKOUT

FOLDER = CHECKOUT / "sql" / "superset"


def read(kind: str) -> dict[str, dict[str, Any]]:
    """uuid -> document."""
    paths = sorted(Path(FOLDER, kind).rglob("*.yaml"))
    documents = [yaml.safe_load(path.read_text()) for path in paths]
    return {each["uuid"]: each for each in documents}


DATASETS, CHARTS = read("datasets"), read("charts")


@pytest.mark.parametrize("dataset", DATASETS.values(), ids=lambda each: each["table_name"])
def test_every_column_and_metric_is_there_for_the_reader(warehouse, dataset):
    words = [each.get("expression", each["column_name"]) for each in dataset["columns"]]
    words += [f"({each['expression']})" for each in dataset["metrics"]]
    with closing(psycopg2.connect(warehouse.reader)) as connection:
        cursor = connection.cursor()
        view = f"{dataset['schema']}.{dataset['table_name']}"
        for word in words:
            cursor.execute(f"select {word} from {view} limit 1")
    assert dataset["main_dttm_col"] in words
    assert dataset["database_uuid"] in read("databases")


@pytest.mark.parametrize("chart", CHARTS.values(), ids=lambda each: each["slice_name"])
def test_every_chart_asks_for_what_its_dataset_has(chart):
    dataset, params = DATASETS[chart["dataset_uuid"]], chart["params"]
    columns = {each["column_name"] for each in dataset["columns"]}
    metrics = {each["metric_name"] for each in dataset["metrics"]}
    asked = [*params.get("all_columns", ()), *params.get("groupby", ())]
    asked += [params["x_axis"]] if "x_axis" in params else []
    asked += [each["subject"] for each in params["adhoc_filters"]]
    assert {*asked, *params.get("column_config", ())} <= columns
    one = params.get("metric")
    assert {*params.get("metrics", ()), *([one] if one else ())} <= metrics
    assert params["viz_type"] == chart["viz_type"]


def test_the_dashboard_shows_every_chart_and_filters_by_columns_that_are_there():
    (board,) = read("dashboards").values()
    charts = [
        each["meta"]["uuid"]
        for each in board["position"].values()
        if isinstance(each, dict) and each["type"] == "CHART"
    ]
    assert sorted(charts) == sorted(CHARTS)
    for each in board["metadata"]["native_filter_configuration"]:
        (target,) = each["targets"]
        dataset = DATASETS[target["datasetUuid"]]
        assert target["column"]["name"] in {each["column_name"] for each in dataset["columns"]}
