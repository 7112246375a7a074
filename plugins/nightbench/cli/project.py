"""init: a project of one's own, which an Airflow takes from its repository."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightbench.cli.common import say
from nightbench.core.own_files import own_folder

app = typer.Typer()

_TEMPLATE = Path(__file__).with_name("template")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Made where it is missing.")] = Path("."),
) -> None:
    """Write a project: suites, clusters and DAG file, for a repository of your own.

    What is there already is left as it is, and named.
    """
    files = {file.relative_to(_TEMPLATE): file for file in sorted(_TEMPLATE.rglob("*.*"))}
    # The two nodes of `nightbench up`: a first suite runs before there is a cluster.
    files[Path("clusters/local.yaml")] = own_folder("dags") / "clusters" / "local.yaml"
    left = []
    for name, file in files.items():
        path = folder / name
        if not file.is_file() or "__pycache__" in name.parts:
            continue
        if path.exists():
            left.append((path, file))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.read_bytes())
        say(f"wrote {path}")
    for path, file in left:
        if path.read_bytes() != file.read_bytes():
            say(f"left as it is: {path}; Nightbench's own is {file}")
    say(f"Next: {folder / 'README.md'}")
