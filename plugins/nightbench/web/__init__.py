"""The pages: what was measured last, each series as a plot, and the alerts with what people do."""

from nightbench.web.actions import Desk
from nightbench.web.app import create_app
from nightbench.web.errors import NotAllowed
from nightbench.web.guard import Access, Visitor
from nightbench.web.repository import Repository

__all__ = ["Access", "Desk", "NotAllowed", "Repository", "Visitor", "create_app"]
