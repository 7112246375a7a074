"""Folders of this deployment, from environment variables.

Every process of it must agree on them: command, DAG processor, worker, triggerer, API server.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from nightbench.core.complaints import one_of
from nightbench.core.errors import UserError
from nightbench.core.package_files import CHECKOUT, package_folder
from nightbench.core.printable import escaped

DAG_FILE = Path("dags/nightbench_dags.py")
"""File that makes a folder a project, as `nightbench init` writes it."""


def dags_folder() -> Path:
    """The folder with `suites/` and `clusters/`: the project.

    `NIGHTBENCH_DAGS` names it; else it is the project that the working directory is in, else the
    folder of the package.
    """
    if named := os.environ.get("NIGHTBENCH_DAGS"):
        return Path(named)
    here = Path.cwd()
    found = (folder for folder in (here, *here.parents) if (folder / DAG_FILE).is_file())
    return next(found, package_folder("dags"))


def dag_files() -> Path:
    """The folder of the files that Airflow reads: the project's own, else the package's."""
    own = dags_folder() / DAG_FILE
    return own.parent if own.is_file() else package_folder("dags")


def benchmarks_folder() -> Path:
    """The tree that is shipped to the nodes; `NIGHTBENCH_BENCHMARKS` names another one."""
    return Path(os.environ.get("NIGHTBENCH_BENCHMARKS") or package_folder("benchmarks"))


def home_folder() -> Path:
    """The state folder: `NIGHTBENCH_HOME`; else `.nightbench` of the checkout.

    If there is no checkout, it is in Airflow's home: all of its processes agree on that.
    """
    usual = (
        CHECKOUT / ".nightbench"
        if CHECKOUT
        else Path(os.environ.get("AIRFLOW_HOME") or "~/airflow") / "nightbench"
    )
    return written_path(os.environ.get("NIGHTBENCH_HOME") or usual)


def wheels_folder() -> Path:
    """The folder whose wheels a run may name: `NIGHTBENCH_WHEELS`, else `wheels/` in the home."""
    return Path(os.environ.get("NIGHTBENCH_WHEELS") or home_folder() / "wheels")


def uv_binary() -> Path | None:
    """The uv that nodes get: `NIGHTBENCH_UV`, the one next to the interpreter, or PATH's.

    Raises:
        UserError: the one that is named is not there.
    """
    named = os.environ.get("NIGHTBENCH_UV")
    if named and not Path(named).is_file():
        raise UserError(f"NIGHTBENCH_UV: found {named!r}, which does not exist; expected a file")
    beside = Path(sys.prefix) / "bin" / "uv"
    found = named or (str(beside) if beside.is_file() else shutil.which("uv"))
    return Path(found) if found else None


def spool_root() -> str | Path:
    """The folder or fsspec URL of the spool: `NIGHTBENCH_SPOOL`, else `spool/` in the home."""
    return os.environ.get("NIGHTBENCH_SPOOL") or home_folder() / "spool"


def written_path(written: str | Path) -> Path:
    """Return the absolute path that a person wrote, `~` replaced if there is such a user.

    Whether it is there is asked by `os.path.exists` and `isfile`: unlike those of `Path` they
    raise nothing for a path that is too long.
    """
    return Path(os.path.expanduser(written)).absolute()


def relative_to_file(path: Path, written: str) -> Path | None:
    """Return the file or folder that a relative path of a YAML file means, or None.

    It is looked for next to the file first, then in the folder above (`dags/`).
    """
    for folder in (path.parent, path.parent.parent):
        candidate = folder.absolute() / os.path.expanduser(written)
        if os.path.exists(candidate):
            return candidate
    return None


def find_suites(dags: Path) -> dict[str, Path]:
    """Return the suite files below a `dags` folder by the names of their suites.

    They are in `suites/` or in a folder of it (`suites/recipes/`); of two of one name it is the
    former. Hidden files are none: an editor's lock, what macOS adds to a copy. A name that cannot
    be printed is escaped.
    """
    folder = dags / "suites"
    paths = [*sorted(folder.glob("[!.]*/[!.]*.yaml")), *folder.glob("[!.]*.yaml")]
    return dict(sorted((escaped(name), path) for name, path in {x.stem: x for x in paths}.items()))


def find_clusters(dags: Path) -> dict[str, Path]:
    """Return the cluster files below a `dags` folder by the names of their clusters."""
    found = sorted((dags / "clusters").glob("[!.]*.yaml"))
    return {escaped(path.stem): path for path in found}


def suite_file(name: str, *, files: bool = False) -> Path:
    """The file of a suite that is given by name or, if `files` allows it, as a path.

    Raises:
        UserError: there is none.
    """
    if files and _is_path(name):
        return written_path(name)
    dags = dags_folder()
    return _known("suite", name, find_suites(dags), [dags / "suites"])


def cluster_file(name: str, *, beside: Path | None = None, files: bool = False) -> Path:
    """The file of a cluster, as `cluster_of` finds it.

    The `clusters/` next to the file of a suite, or next to the folder `suites/` of this file, comes
    first.

    Raises:
        UserError: there is none of this name.
    """
    if files and _is_path(name):
        return written_path(name)
    folders = [dags_folder().absolute()]
    if beside is not None:
        folder = beside.absolute().parent
        above = (each.parent for each in (folder, folder.parent) if each.name == "suites")
        folders.insert(0, next(above, folder))
    known = {key: path for each in reversed(folders) for key, path in find_clusters(each).items()}
    looked = dict.fromkeys(each / "clusters" for each in folders)
    return _known("cluster", name, known, list(looked))


def _is_path(name: str) -> bool:
    return name.endswith((".yaml", ".yml")) or os.sep in name


def _known(what: str, name: str, known: Mapping[str, Path], folders: Sequence[Path]) -> Path:
    if name not in known:
        where = ", ".join(map(str, folders))
        raise UserError(f"{what}: {one_of(name, known)}; looked in {where}")
    return known[name]
