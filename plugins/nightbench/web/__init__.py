"""The results page: what was measured last, and each series as a plot. It only reads."""

from nightbench.web.app import create_app
from nightbench.web.repository import Repository

__all__ = ["Repository", "create_app"]
