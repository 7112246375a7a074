"""The warehouse: PostgreSQL through psycopg2 and aiosql, with the SQL text of the folder `sql/`.

One module for each aggregate, one `Repository` in it; `migrate.apply` makes the tables and views.
"""

from nightbench.warehouse.connection import WarehouseRefused, WarehouseUnavailable, connect
from nightbench.warehouse.history_import import ImportReport
from nightbench.warehouse.loader import Loader
from nightbench.warehouse.nodes import NodeRepository
from nightbench.warehouse.reader import Reader
from nightbench.warehouse.triage import MoveRefused, Triage

__all__ = [
    "ImportReport",
    "Loader",
    "MoveRefused",
    "NodeRepository",
    "Reader",
    "Triage",
    "WarehouseRefused",
    "WarehouseUnavailable",
    "connect",
]
