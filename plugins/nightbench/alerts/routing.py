"""Whose an alert is and where it is told: the first route of the suite that matches. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightbench.alerts import Channel, named
from nightbench.core.model import Route
from nightbench.core.run_plan import RunPlan


@dataclass(frozen=True, eq=False)
class Routed:
    """Something that is untold, and who is to hear of it."""

    row: Mapping[str, Any]
    """Of `untold`."""
    owner: str
    channels: tuple[Channel, ...]

    @property
    def alert_id(self) -> int:
        """Number of the alert."""
        return int(self.row["alert_id"])

    @property
    def is_news(self) -> bool:
        """That it opened, or lives again; else that it ended."""
        return bool(self.row["what"] == "news")

    @property
    def key(self) -> tuple[int, str, str]:
        """What a channel is told once."""
        return self.alert_id, self.row["what"], self.row["of_run_id"]

    @property
    def document(self) -> dict[str, Any]:
        """The same, for the warehouse."""
        return dict(zip(("alert_id", "what", "of_run_id"), self.key, strict=True))


class Router:
    """Routes by a suite's file, as the run's plan has kept it."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        # One channel that is named in several places hears everything once. What it took is kept
        # under its name, so that hangs on the file alone, not on what there is to tell.
        self._by_url = {each.url: each for each in channels_of(plan.channels, plan.routes)}
        self.own = self._channels(plan.channels)
        """The suite's own channels."""

    def of(self, row: Mapping[str, Any]) -> Routed:
        """Who is to hear of an alert; people's own choice of an owner comes first."""
        for route in self._plan.routes:
            if _matches(route, row):
                channels = self.own if route.alerts is None else self._channels(route.alerts)
                return Routed(row, row["owner"] or route.owner or self._plan.owner, channels)
        return Routed(row, row["owner"] or self._plan.owner, self.own)

    def _channels(self, urls: Sequence[str]) -> tuple[Channel, ...]:
        return tuple(dict.fromkeys(self._by_url[url] for url in urls))


def channels_of(urls: Sequence[str], routes: Sequence[Route]) -> list[Channel]:
    """Every channel of a suite, each once, by the first place where it stands."""
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
