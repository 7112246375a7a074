"""The warehouse: PostgreSQL through psycopg2, running the text that lies in `sql/`.

`migrate.apply` makes the tables, `loader.Loader` writes, `reader.Reader` reads, `nodes.NodeBook`
keeps the state of nodes, `triage.Triage` moves alerts, `history_csv.import_history` brings a
site's older results, `references.load_references` the published figures. What is handed over is
`nightbench.core.model` and the dataclasses of `nightbench.nodes`.
"""

from nightbench.warehouse.connection import WarehouseRefused, WarehouseUnavailable, connect
from nightbench.warehouse.history_csv import ImportReport
from nightbench.warehouse.loader import Loader
from nightbench.warehouse.nodes import NodeBook
from nightbench.warehouse.reader import Reader
from nightbench.warehouse.triage import MoveRefused, Triage

__all__ = [
    "ImportReport",
    "Loader",
    "MoveRefused",
    "NodeBook",
    "Reader",
    "Triage",
    "WarehouseRefused",
    "WarehouseUnavailable",
    "connect",
]
