"""Entry point of the `nightbench` command; Ctrl-C is told from the start on."""

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
