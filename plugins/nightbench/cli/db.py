"""db: the warehouse's tables, its archives, and the way back to an earlier version."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightbench.cli import common
from nightbench.cli.common import JsonOption, out, say
from nightbench.config.control_plane import ControlPlane, control_plane
from nightbench.core.errors import UserError

if TYPE_CHECKING:
    from nightbench.local.deployment import Stack

app = typer.Typer(help="Migrate, check, back up or restore the warehouse; plan the way back.")

_ONE_UPGRADE = timedelta(minutes=15)

BackupOption = Annotated[
    bool,
    typer.Option(
        "--backup/--no-backup",
        help="Archive this machine's warehouse below backups/ of the state folder before a newer "
        "version changes its tables.",
    ),
]


@app.command()
def migrate(
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Connection string of the owner's role; the warehouse of `nightbench up`, or the "
            f"one that {common.WAREHOUSE_VARIABLE} names, unless given."
        ),
    ] = None,
    backup: BackupOption = True,
) -> None:
    """Bring the warehouse's tables and views up to date; done twice it changes nothing."""
    from nightbench.local import lifecycle
    from nightbench.warehouse import migrate as migrations

    where = dsn or common.warehouse_dsn("nightbench_owner")
    if where is None:
        raise UserError(
            f"{common.no_warehouse()}, or by --dsn"
            if control_plane() is ControlPlane.NONE
            else "Migrations need the role nightbench_owner, of which a team's Airflow has no "
            "Connection: name the warehouse with --dsn postgresql://nightbench_owner@…"
        )
    if dsn is None and not os.environ.get(common.WAREHOUSE_VARIABLE):
        lines = lifecycle.migrate_warehouse(_running_stack(), backup)
    else:
        lines = (f"applied {name}" for name in migrations.apply(where))
    line = None
    for line in lines:
        say(line)
    if line is None:
        say("up to date: nothing to apply")


@app.command()
def backup(
    file: Annotated[Path, typer.Argument(help="The archive; it is replaced where it exists.")],
) -> None:
    """Write an archive of this machine's warehouse, while runs go on."""
    from nightbench.core.whole_files import replaced
    from nightbench.local import backup as archives

    stack = _running_stack()
    with replaced(file) as beside:
        archives.back_up(stack, beside)
    say(f"{file}: {file.stat().st_size / 1e6:,.1f} MB; put it back: nightbench db restore {file}")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `nightbench db backup` wrote.")],
) -> None:
    """Replace this machine's warehouse by an archive; the replaced database is kept."""
    from datetime import UTC, datetime

    from nightbench.local import backup as archives

    if not os.path.isfile(file):
        raise UserError(f"{file}: found no such file; expected what `nightbench db backup` wrote")
    kept, applied = archives.restore(_running_stack(), file, datetime.now(UTC))
    for name in applied:
        say(f"applied {name}")
    say(f"restored {file}; what was there is the database {kept}: drop it when it is not needed")


def _running_stack() -> Stack:
    from nightbench.local import deployment

    named = os.environ.get(common.WAREHOUSE_VARIABLE)
    if named:
        raise UserError(
            f"{common.WAREHOUSE_VARIABLE} names another warehouse; this command is for the one of "
            "`nightbench up`. docs/warehouse.md says how others are backed up by pg_dump"
        )
    stack = deployment.load(common.home())
    if stack.running("postgres") is None:
        raise UserError("PostgreSQL does not run. Start it: nightbench up")
    return stack


@app.command("check")
def check_warehouse() -> None:
    """Exit with 1 where the warehouse lacks tables or views of this version."""
    from nightbench.warehouse import migrate

    with closing(common.open_warehouse("nightbench_reader")) as connection:
        if not migrate.is_current(connection):
            raise UserError(
                "the warehouse lacks tables or views of this version: nightbench db migrate"
            )
    say("the warehouse has the tables and views of this version")


@app.command("downgrade-plan")
def downgrade_plan(json: JsonOption = False) -> None:
    """Say what the way back to an earlier version takes; nothing is changed.

    Migrations only go forward: the way back of each upgrade is the version before it and the
    archive from before. Shown are the upgrades that this warehouse has had, the newest first.
    """
    from nightbench.warehouse import migrate

    where = common.warehouse_dsn("nightbench_owner")
    if where is None:
        raise UserError(common.no_warehouse())
    upgrades = upgrades_of(migrate.applied(where), common.home().backups)
    if json:
        common.print_json(upgrades)
        return
    if not upgrades:
        say("this warehouse has had no upgrade since it was made: there is no way back to plan")
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
    say("The way back before one of them, with the version that ran then:")
    say("  nightbench down; install that version; nightbench up; nightbench db restore ARCHIVE")
    say(
        "What was loaded since then stays in the database that `restore` names. On a server of "
        "your own: its pg_dump from before."
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
