"""db: migrate, check, back up and restore the warehouse; go back to an earlier version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import JsonOption, out, say
from nightbench.config.control_plane import ControlPlane, control_plane
from nightbench.core.atomic_files import replaced_file
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.local.deployment import Stack

app = typer.Typer(help="Migrate, check, back up or restore the warehouse; plan a downgrade.")

_ONE_UPGRADE = timedelta(minutes=15)

BackupOption = Annotated[
    bool,
    typer.Option(
        "--backup/--no-backup",
        help="First archive this machine's warehouse in backups/ of the state folder.",
    ),
]


@app.command()
def migrate(
    dsn: Annotated[
        str | None,
        typer.Option(
            help=f"Connection string of the owner's role. [default: {common.WAREHOUSE_VARIABLE}, "
            "or the warehouse of `nightbench up`]"
        ),
    ] = None,
    backup: BackupOption = True,
) -> None:
    """Update the warehouse's tables and views; a second call changes nothing."""
    from nightbench.local import lifecycle
    from nightbench.warehouse import migrate as migrations

    where = dsn or common.warehouse_dsn("nightbench_owner")
    if where is None:
        raise UserError(
            f"{common.no_warehouse()}, or by --dsn"
            if control_plane() is ControlPlane.NONE
            else "Migrations need the role nightbench_owner; a team's Airflow has no Connection "
            "of this role: name the warehouse with --dsn postgresql://nightbench_owner@…"
        )
    if dsn is None and not os.environ.get(common.WAREHOUSE_VARIABLE):
        lines = lifecycle.migrate_warehouse(_running_stack(), backup)
    else:
        lines = (f"applied {name}" for name in migrations.apply(where))
    line = None
    for line in lines:
        say(line)
    if line is None:
        say("the warehouse is up to date: nothing to apply")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="Archive to write or replace.")],
) -> None:
    """Write an archive of this machine's warehouse; runs may continue."""
    from nightbench.local import backup as archives

    stack = _running_stack()
    with replaced_file(file) as new:
        archives.back_up(stack, new)
    say(f"{file}: {file.stat().st_size / 1e6:,.1f} MB; restore it: nightbench db restore {file}")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="Archive that `nightbench db backup` wrote.")],
) -> None:
    """Replace this machine's warehouse with an archive; the old database is kept."""
    from nightbench.local import backup as archives

    if not os.path.isfile(file):
        raise UserError(f"{file}: no such file; expected an archive of `nightbench db backup`")
    kept, applied = archives.restore(_running_stack(), file, datetime.now(UTC))
    for name in applied:
        say(f"applied {name}")
    say(f"restored {file}; the old database is kept as {kept}: drop it when it is no longer needed")


def _running_stack() -> Stack:
    from nightbench.local import deployment

    named = os.environ.get(common.WAREHOUSE_VARIABLE)
    if named:
        raise UserError(
            f"{common.WAREHOUSE_VARIABLE} names another warehouse; expected the one of "
            "`nightbench up`. Back up other warehouses with pg_dump (docs/warehouse.md)"
        )
    stack = deployment.load(common.home())
    if stack.running("postgres") is None:
        raise UserError("PostgreSQL does not run. Start PostgreSQL: nightbench up")
    return stack


@app.command("downgrade-plan")
def downgrade_plan(json: JsonOption = False) -> None:
    """Print the steps to go back to an earlier version; nothing is changed.

    Migrations only go forward. To go back, install the version before an upgrade and restore the
    archive from before this upgrade. The command lists all upgrades, newest first.
    """
    from nightbench.warehouse import migrate

    where = common.warehouse_dsn("nightbench_owner")
    if where is None:
        raise UserError(common.no_warehouse())
    upgrades = upgrades_of(migrate.applied(where), common.home().backups)
    none = "this warehouse has had no upgrade: there is no earlier version to go back to"
    if common.all_said(upgrades, none, json=json):
        return
    rows = [
        (
            f"{each['at']:%Y-%m-%d %H:%M}",
            ", ".join(each["migrations"]),
            "\n".join(each["archives"]) or "none here",
        )
        for each in upgrades
    ]
    out.print(common.table(("upgraded (UTC)", "migrations", "archive from before"), rows))
    say("To go back to the version before an upgrade:")
    say("  nightbench down; install that version; nightbench up; nightbench db restore ARCHIVE")
    say(
        "Data loaded since the upgrade stays in the database that `restore` names. On your own "
        "PostgreSQL server, restore the pg_dump from before the upgrade."
    )


def upgrades_of(applied: Sequence[tuple[str, datetime]], backups: Path) -> list[Mapping[str, Any]]:
    """Return the upgrades of a warehouse, the newest first, with the archives from before each.

    Migrations of one upgrade are applied within one transaction, and so within minutes.
    """
    found: list[dict[str, Any]] = []
    for name, at in applied:
        archives = sorted(map(str, backups.glob(f"warehouse-before-{name}-*.backup")))
        if not found or archives or at - found[-1]["at"] > _ONE_UPGRADE:
            found.append({"at": at, "migrations": [], "archives": archives})
        found[-1]["migrations"].append(name)
    return list(reversed(found[1:]))  # the first one made it
