"""The versions of Airflow that Nightbench runs in, from 3.2 on, and what an old one lacks."""

from importlib import metadata

from packaging.version import Version

from nightbench.core.errors import UserError

OLDEST = Version("3.2")


def installed() -> Version:
    """The version of the Airflow in this environment."""
    return Version(metadata.version("apache-airflow-core"))


def lacking(version: Version) -> str:
    """Return the limit of Nightbench with this version of Airflow; empty if it has none."""
    if version.release >= Version("3.3").release:
        return ""
    return (
        "a case that is marked as failed, or cleared, continues on its nodes for up to two "
        "minutes, until its lease expires. Airflow notifies triggers of this only from 3.3 on"
    )


def refuse_too_old(version: Version) -> None:
    """Refuse an Airflow that cannot show the pages.

    Raises:
        UserError: it is older than `OLDEST`.
    """
    if version < OLDEST:
        raise UserError(
            f"Airflow {version} is not supported: its UI lacks globalThis.ChakraUI, without which "
            f"Nightbench's pages do not open. Expected Airflow {OLDEST} or newer"
        )
