"""The package as one of Airflow's providers: known to it, and set in its configuration."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import airflow
import jsonschema
import pytest

from nightbench.config.airflow_provider import get_provider_info

ASK = (
    "import airflow.configuration, nightbench.orchestration; "
    "from nightbench.config import locations; "
    "print(locations.spool_root(), locations.wheels_folder())"
)


def test_airflow_finds_what_it_is_told_and_accepts_it() -> None:
    [found] = (
        each
        for each in entry_points(group="apache_airflow_provider")
        if each.dist.name == "nightbench"
    )
    assert found.load() is get_provider_info
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.parametrize(
    ("more", "spool"),
    [({}, "s3://bucket/nights"), ({"NIGHTBENCH_SPOOL": "/variables/first"}, "/variables/first")],
)
def test_settings_of_airflow_reach_what_does_not_know_airflow(
    more: dict[str, str], spool: str, tmp_path: Path
) -> None:
    env = {name: value for name, value in os.environ.items() if "NIGHTBENCH" not in name}
    (tmp_path / "airflow.cfg").write_text(f"[nightbench]\nhome = {tmp_path}/state\n")
    env |= {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__NIGHTBENCH__SPOOL": "s3://bucket/nights"}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env=env | more, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"{spool} {tmp_path}/state/wheels"
