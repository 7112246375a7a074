"""Entry point of the `nightbench` command; Ctrl-C is handled from the start."""

import logging
import sys


def quiet() -> None:
    """Let libraries log warnings and errors only: standard output belongs to the commands.

    Airflow's import changes all loggers, so this function is called again after the import.
    """
    for name in ("airflow", "asyncssh", "alembic", "great_expectations", "httpx", "yoyo"):
        logging.getLogger(name).setLevel(logging.WARNING)


def main() -> None:
    """Run the command; Ctrl-C ends it at any time with exit code 130 and no traceback."""
    quiet()
    try:
        from nightbench.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        from nightbench.config.control_plane import ONLY_LOCAL, how_to_install
        from nightbench.core.package_files import CHECKOUT

        missing = (error.name or "").partition(".")[0]
        if CHECKOUT or missing == "nightbench":
            raise
        extra = "local" if missing in ONLY_LOCAL else "airflow"
        print(
            f"error: this command needs the module {missing}, which is not installed: "
            f"{how_to_install(extra)}",
            file=sys.stderr,
        )
        sys.exit(1)
