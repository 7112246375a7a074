"""Entry point of the `nightbench` command; Ctrl-C is told from the start on."""

import importlib.util
import logging
import sys


def quiet() -> None:
    """Let libraries log warnings and errors only: standard output belongs to the commands.

    Airflow's import points all loggers to it, so this is called again after that.
    """
    for name in ("airflow", "asyncssh", "alembic", "great_expectations", "httpx", "yoyo"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> None:
    """Run the command; Ctrl-C ends it with exit code 130 and no traceback, from the start on."""
    quiet()
    try:
        from nightbench.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if importlib.util.find_spec("airflow"):  # then all is there that belongs to it
            raise
        print(
            f"error: this command needs more than is installed (no module {error.name}): "
            "pip install 'nightbench[airflow]', or nightbench[local] with a PostgreSQL and nodes "
            "of this machine.",
            file=sys.stderr,
        )
        sys.exit(1)
