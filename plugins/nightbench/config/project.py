"""All files of a project together: what is in them, and every problem with file and line."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from nightbench.config import locations
from nightbench.config.catalog import load_catalog
from nightbench.config.clusters import load_cluster
from nightbench.config.commands import clashing_commands
from nightbench.config.locations import find_clusters, find_suites
from nightbench.config.scales import scales_of, written_scales
from nightbench.config.source import display, read_document
from nightbench.config.suites import load_suite
from nightbench.core.errors import UserError
from nightbench.core.model import Catalog, Suite


def validated(files: Sequence[Path] = ()) -> tuple[list[str], list[str]]:
    """Return a line for each valid file, and the problems of all others, each once.

    Without files: those of the project, and the framework lines and workloads.
    """
    catalog = load_catalog()
    found, wrong = list[str](), dict.fromkeys(catalog.problems)
    if not files:
        found.append(
            f"benchmarks: {len(catalog.frameworks)} framework lines, "
            f"{len(catalog.workloads)} workloads"
        )
        folder = locations.dags_folder()
        files = [*find_clusters(folder).values(), *find_suites(folder).values()]
        beside = [*folder.glob("clusters/*"), *folder.glob("suites/**/*")]
        wrong |= {
            f"{display(path)}: is not read; rename it to {path.stem}.yaml": None
            for path in sorted(beside)
            if path.suffix != ".yaml" and path.suffix.lower() in (".yaml", ".yml")
        }
    suites: list[Suite] = []
    for path in files:
        try:
            found += _described(path, catalog, suites)
        except UserError as error:
            wrong.update(dict.fromkeys(str(error).splitlines()))
    wrong.update(dict.fromkeys(str(error) for error in clashing_commands(suites)))
    return found, list(wrong)


def _described(path: Path, catalog: Catalog, suites: list[Suite]) -> Iterator[str]:
    """Yield what a file holds; a suite is added to `suites`, once for each of its scales."""
    document = read_document(path)
    data = document.data
    if "cluster" in data and "suite" not in data and "matrix" not in data:
        cluster = load_cluster(path, catalog=catalog)
        yield f"{display(path)}: cluster {cluster.name}, {len(cluster.nodes)} nodes"
        return
    for scale in written_scales(document, scales_of(catalog)):
        suite = load_suite(path, catalog, scale=scale)
        suites.append(suite)
        words = f"suite {suite.name}, scale {suite.scale}: {len(suite.cases)} cases"
        yield f"{display(path)}: {words}" + (
            f", {len(suite.skipped)} skipped" if suite.skipped else ""
        )
