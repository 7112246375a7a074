"""The pages in Airflow's UI (`ui/`, TypeScript) and the JSON API that they read."""

from nightbench.web.app import create_app
from nightbench.web.guard import PageAccess, PageUser
