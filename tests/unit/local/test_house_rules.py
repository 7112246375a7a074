"""Rules of the repository that no linter knows."""

from nightbench.core.package_files import CHECKOUT as REPO


def test_plugins_folder_hides_the_package_from_airflow() -> None:
    # Without this line Airflow executes every module below under its bare name.
    assert "nightbench/" in (REPO / "plugins" / ".airflowignore").read_text().split()
