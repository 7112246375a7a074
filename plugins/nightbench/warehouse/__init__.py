"""The warehouse: PostgreSQL through psycopg2 and aiosql, with the SQL text of the folder `sql/`.

`Warehouse` holds one repository for each aggregate on one connection; `migrate.apply` makes the
tables and views.
"""

from nightbench.warehouse.alerts import MoveRefused, Triage
from nightbench.warehouse.connection import connect
from nightbench.warehouse.warehouse import Warehouse, opened
