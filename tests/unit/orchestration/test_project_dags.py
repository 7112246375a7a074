from __future__ import annotations

import re
from pathlib import Path

from nightbench.orchestration import project_dags

DAGS = Path(__file__).resolve().parents[3] / "dags"


def test_a_project_of_one_s_own_has_every_dag_of_the_checkout() -> None:
    made = {name for path in DAGS.glob("*.py") for name in _imported(path)}
    assert {"accept_dag", "experiments_dag", "nightly_dags"} <= made
    assert made <= vars(project_dags).keys()


def _imported(path: Path) -> list[str]:
    return re.findall(r"^from nightbench\S* import (\w+)$", path.read_text(), re.M)
