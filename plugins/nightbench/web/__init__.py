"""The pages in Airflow's UI (`ui/`, TypeScript) and the JSON API that they read."""

from nightbench.web.actions import AlertTriage
from nightbench.web.app import create_app
from nightbench.web.guard import PageAccess, PageUser
from nightbench.web.page_queries import PageQueries

__all__ = ["AlertTriage", "PageAccess", "PageQueries", "PageUser", "create_app"]
