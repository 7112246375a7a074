"""Routes alerts to owners and channels: the first matching route of the suite counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.alerts import Channel, named
from nightbench.core.model import Route
from nightbench.core.run_plan import RunPlan


@dataclass(frozen=True, eq=False)
class Routed:
    """An unnotified alert with its owner and channels."""

    row: Mapping[str, Any]
    """Row of the statement `unnotified`."""
    owner: str
    channels: tuple[Channel, ...]

    @property
    def alert_id(self) -> int:
        """Number of the alert."""
        return int(self.row["alert_id"])

    @property
    def is_news(self) -> bool:
        """True where it was opened or reopened; False where it ended."""
        return bool(self.row["what"] == "news")

    @property
    def key(self) -> tuple[int, str, str]:
        """Key of what a channel is notified of once."""
        return self.alert_id, self.row["what"], self.row["of_run_id"]

    @property
    def document(self) -> dict[str, Any]:
        """The same, as the warehouse takes it."""
        return dict(zip(("alert_id", "what", "of_run_id"), self.key, strict=True))


class Router:
    """Routes alerts by a suite's file, as the run's plan holds it."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        # A channel that is named in several places gets everything once. What it accepted is stored
        # under its name, which must depend on the file alone.
        self._by_url = {each.url: each for each in channels_of(plan.channels, plan.routes)}
        self.own = self._channels(plan.channels)
        """The suite's own channels."""

    def of(self, row: Mapping[str, Any]) -> Routed:
        """Return an alert with owner and channels; an owner that a person chose comes first."""
        for route in self._plan.routes:
            if _matches(route, row):
                channels = self.own if route.alerts is None else self._channels(route.alerts)
                return Routed(row, row["owner"] or route.owner or self._plan.owner, channels)
        return Routed(row, row["owner"] or self._plan.owner, self.own)

    def _channels(self, urls: Sequence[str]) -> tuple[Channel, ...]:
        return tuple(dict.fromkeys(self._by_url[url] for url in urls))


def channels_of(urls: Sequence[str], routes: Sequence[Route]) -> list[Channel]:
    """Return every channel of a suite once, named by its first place."""
    every = named(urls)
    for place, route in enumerate(routes):
        every += named(route.alerts or (), f"routes[{place}].alerts")
    found: dict[str, Channel] = {}
    for channel in every:
        found.setdefault(channel.url, channel)
    return list(found.values())


def _matches(route: Route, row: Mapping[str, Any]) -> bool:
    axes = row["axes"] or {}
    return (
        (not route.frameworks or axes.get("framework") in route.frameworks)
        and (not route.workloads or axes.get("workload") in route.workloads)
        and (not route.clusters or row["cluster"] in route.clusters)
        and (not route.verdicts or row["verdict"] in route.verdicts)
    )
