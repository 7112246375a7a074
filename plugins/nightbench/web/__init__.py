"""The pages: what was measured last, each series as a plot, and the alerts with what people do."""

from nightbench.web.actions import AlertTriage
from nightbench.web.app import create_app
from nightbench.web.guard import PageAccess, PageUser
from nightbench.web.page_queries import PageQueries

__all__ = ["AlertTriage", "PageAccess", "PageQueries", "PageUser", "create_app"]
