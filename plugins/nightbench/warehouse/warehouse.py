"""All repositories on one connection."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from nightbench.warehouse.acceptance import AcceptanceRepository
from nightbench.warehouse.alerts import AlertRepository, MessageRepository
from nightbench.warehouse.causes import CauseRepository
from nightbench.warehouse.connection import Connect, Connection
from nightbench.warehouse.experiments import ExperimentRepository
from nightbench.warehouse.exports import ExportRepository
from nightbench.warehouse.grades import GradeRepository
from nightbench.warehouse.nights import NightRepository
from nightbench.warehouse.nodes import NodeRepository
from nightbench.warehouse.runs import RunRepository
from nightbench.warehouse.series import SeriesRepository
from nightbench.warehouse.tables import TableRepository


class Warehouse:
    """The warehouse as the role of a connection may read and write it."""

    def __init__(self, connection: Connection) -> None:
        self.runs = RunRepository(connection)
        self.series = SeriesRepository(connection)
        self.alerts = AlertRepository(connection)
        self.messages = MessageRepository(connection)
        self.causes = CauseRepository(connection)
        self.experiments = ExperimentRepository(connection)
        self.nights = NightRepository(connection)
        self.nodes = NodeRepository(connection)
        self.grades = GradeRepository(connection)
        self.tables = TableRepository(connection)
        self.acceptance = AcceptanceRepository(connection)
        self.exports = ExportRepository(connection)


@contextmanager
def opened(connect: Connect) -> Iterator[Warehouse]:
    """Open the warehouse, and close it at the end."""
    with closing(connect()) as connection:
        yield Warehouse(connection)
