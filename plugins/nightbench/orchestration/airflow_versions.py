"""Features that Nightbench lacks in an old version of Airflow; the wheel requires 3.2 or newer."""

from importlib import metadata

from packaging.version import Version


def lacking() -> str:
    """Return the limit of Nightbench with the installed Airflow; empty if it has none."""
    version = Version(metadata.version("apache-airflow-core"))
    if version.release >= (3, 3):
        return ""
    return (
        f"Airflow {version}: a case that is marked as failed, or cleared, continues on its nodes "
        "for up to two minutes, until its lease expires. Airflow notifies triggers of this only "
        "from 3.3 on"
    )
