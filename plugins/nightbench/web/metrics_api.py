"""Newest medians and verdicts for a Prometheus that asks the API server."""

from fastapi import Response

from nightbench.core.prometheus import CONTENT_TYPE, prometheus_text
from nightbench.warehouse.pages import OpenPages
from nightbench.web.guard import HEADERS


class MetricsApi:
    """Handler of the metrics."""

    def __init__(self, repository: OpenPages) -> None:
        self._repository = repository

    def metrics(self, suite: str | None = None, cluster: str | None = None) -> Response:
        """Newest median, verdict and live alert of each series, in Prometheus's text format."""
        with self._repository() as repository:
            rows = repository.metrics(suite, cluster)
        text = "".join(prometheus_text(rows))
        return Response(text, media_type=CONTENT_TYPE, headers=HEADERS)
