"""docker/kubernetes: the pod of a task and the values for the official chart of Airflow.

The pod is held against Kubernetes' own schema. The chart's schema is not in this repository: where
`NIGHTBENCH_AIRFLOW_CHART` names an unpacked chart, the values are held against its schema too.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docker" / "kubernetes"
VERSIONS = ("1.32", "1.37")
"""Of Kubernetes: the oldest and the newest that the files are held against."""
CHART = os.environ.get("NIGHTBENCH_AIRFLOW_CHART", "")
COMPONENTS = ("apiServer", "scheduler", "dagProcessor", "triggerer")


@pytest.fixture
def pod() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "pod_template.yaml").read_text())
    return found


@pytest.fixture
def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text())
    return found


def variables(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in entries if "value" in entry}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pod_of_a_task_is_one_for_kubernetes(pod: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(pod, version, strict=True)
    wrong = copy.deepcopy(pod)
    wrong["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        kubernetes_validate.validate(wrong, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_values_hand_to_every_pod_is_right_for_kubernetes(
    pod: dict[str, Any], values: dict[str, Any], version: str
) -> None:
    container = pod["spec"]["containers"][0]
    pod["spec"]["volumes"] = values["volumes"]
    container |= {"volumeMounts": values["volumeMounts"], "env": values["env"]}
    container["env"] += [
        {
            "name": entry["envName"],
            "valueFrom": {"secretKeyRef": {"name": entry["secretName"], "key": entry["secretKey"]}},
        }
        for entry in values["secret"]
    ]
    kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.skipif(
    not CHART, reason="needs Airflow's chart, unpacked, in NIGHTBENCH_AIRFLOW_CHART"
)
def test_the_values_are_ones_for_the_chart(values: dict[str, Any]) -> None:
    schema = json.loads((Path(CHART) / "values.schema.json").read_text())
    jsonschema.Draft7Validator(schema).validate(values)


def test_tasks_and_services_agree(pod: dict[str, Any], values: dict[str, Any]) -> None:
    (task,) = pod["spec"]["containers"]
    assert task["name"] == "base", "the executor puts the task into the container of this name"
    image, tag = values["defaultAirflowRepository"], values["defaultAirflowTag"]
    assert task["image"] == f"{image}:{tag}"
    executor = values["config"]["kubernetes_executor"]
    assert executor == {"worker_container_repository": image, "worker_container_tag": tag}
    ours, theirs = variables(task["env"]), variables(values["env"])
    assert {name: ours[name] for name in theirs} == theirs
    for option, value in values["config"]["logging"].items():
        assert ours[f"AIRFLOW__LOGGING__{option.upper()}"] == value
    assert ours["AIRFLOW_HOME"] == values["airflowHome"]
    # Without it, the image's entry point `airflow` would get the words of a program.
    assert task["command"] == ["/usr/bin/env"]
    assert {tuple(values[name]["command"]) for name in COMPONENTS} == {("/usr/bin/env",)}
    # The chart's own would call /entrypoint and /clean-logs, which only Airflow's own image has.
    for name in COMPONENTS[1:]:
        probes = [values[name][probe] for probe in values[name] if probe.endswith("Probe")]
        assert {probe["command"][0] for probe in probes} == {"airflow"}
        assert values[name]["logGroomerSidecar"] == {"enabled": False}
    assert "startupProbe" in values["scheduler"]


def test_versions_are_those_of_the_locks(values: dict[str, Any]) -> None:
    lock = (ROOT / "requirements" / "control.lock").read_text()
    assert f"\napache-airflow=={values['airflowVersion']} " in lock
    released = re.findall(r"^## (\d+\.\d+\.\d+) ", (ROOT / "CHANGELOG.md").read_text(), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert values["defaultAirflowTag"] == [*released, Version(project).base_version][0]


def test_secrets_are_named_and_never_written(pod: dict[str, Any], values: dict[str, Any]) -> None:
    named = [*pod["spec"]["containers"][0]["env"], *values["env"]]
    secret = ("KEY", "PASSWORD", "SECRET", "TOKEN", "_CONN")
    written = {
        entry["name"]
        for entry in named
        if "value" in entry and any(word in entry["name"] for word in secret)
    }
    assert written == set()
    # A task's pod asks the API server: what it has not, it cannot give away.
    assert not any("DATABASE" in e["name"] or "FERNET" in e["name"] for e in named)


PAGE = (ROOT / "docs" / "own-airflow.md").read_text(encoding="utf-8")


@pytest.mark.skipif(
    not CHART, reason="needs Airflow's chart, unpacked, in NIGHTBENCH_AIRFLOW_CHART"
)
def test_the_values_of_the_page_are_ones_for_the_chart() -> None:
    schema = json.loads((Path(CHART) / "values.schema.json").read_text())
    (text,) = re.findall(r"^```yaml\n(images:.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(text))


def test_the_dockerfile_of_the_page_is_one_for_hadolint(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    file = tmp_path / "Dockerfile"
    file.write_text(text, encoding="utf-8")
    hadolint = Path(sys.prefix) / "bin" / "hadolint"
    done = subprocess.run([hadolint, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
