"""Entry point of the `nightbench` command; importing the command takes half a second."""

import sys


def main() -> None:
    """Run the command; Ctrl-C ends it with exit code 130 and no traceback, from the start on."""
    try:
        from nightbench.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)
