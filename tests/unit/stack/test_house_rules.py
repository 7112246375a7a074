"""The import rules speak of every module: one that they forget is bound by none of them."""

import tomllib

from nightbench.stack.paths import REPO


def test_every_top_level_module_is_under_the_import_rules() -> None:
    contracts = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["importlinter"]
    ruled = set(contracts["contracts"][0]["source_modules"])
    package = REPO / "plugins" / "nightbench"
    found = {
        f"nightbench.{path.stem}"
        for path in package.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").is_file()
    }
    # Orchestration alone may import Airflow: the first contract leaves it out.
    assert found - ruled == {"nightbench.orchestration"} & found


def test_plugins_folder_hides_the_package_from_airflow() -> None:
    # Without this line Airflow executes every module below under its bare name.
    assert "nightbench/" in (REPO / "plugins" / ".airflowignore").read_text().split()
