"""The outbox: each item is sent until a channel took it, and never again to one that took it.

An item is the news of an alert, its end, a note about a series or about the detector, or a missing
night. Unsent items are state of the warehouse, not of the process that found them: the next process
sends them. A fact is stored before its message is sent, and each channel that took an item is
stored right after it did. So a message that no channel took is sent by the next try, and one that
was recorded as sent is never sent twice.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nightbench.alerts.channels import Channel, Delivery, ResolveConnection, channels_of, send
from nightbench.alerts.message import Message
from nightbench.alerts.plot_png import Picture
from nightbench.core.model import Route
from nightbench.warehouse.alerts import ItemKey, MessageRepository

ALERT, ALERT_END = "alert", "alert_end"
NOISE, DRIFT, GRADE = "noise", "drift", "grade"
NIGHT, NIGHT_END = "night", "night_end"


@dataclass(frozen=True, eq=False)
class Item:
    """Something to be notified of, with its owner and channels."""

    kind: str
    subject: str
    news: str
    """Run, or time of a schedule, that made it news."""
    owner: str
    channels: tuple[Channel, ...]
    row: Mapping[str, Any] = field(default_factory=dict)
    """Facts about the item."""

    @property
    def key(self) -> ItemKey:
        """Key of what a channel is notified of once."""
        return self.kind, self.subject, self.news

    @property
    def alert_id(self) -> int:
        """Number of its alert."""
        return int(self.subject)

    @property
    def is_news(self) -> bool:
        """True if an alert was opened or reopened; False if it ended."""
        return self.kind == ALERT


class Router:
    """Finds owners and channels by the routes of a suite's file; the first that matches counts."""

    def __init__(self, owner: str, channels: Sequence[str], routes: Sequence[Route]) -> None:
        self._owner, self._routes = owner, routes
        # A channel that several places name gets each message once. Accepted messages are stored
        # by the channel's name, which must depend on the file alone.
        self._by_url = {each.url: each for each in channels_of(channels, routes)}
        self._own = self._channels(channels)

    def note(self, row: Mapping[str, Any]) -> Item:
        """Return a note about the suite, which is for the suite's own channels."""
        return Item(*_key(row), self._owner, self._own, row["fact"])

    def of(self, row: Mapping[str, Any]) -> Item:
        """Return an alert or a missing night; an owner that a person chose comes first."""
        for route in self._routes:
            if _matches(route, row):
                channels = self._own if route.alerts is None else self._channels(route.alerts)
                return Item(*_key(row), row["owner"] or route.owner or self._owner, channels, row)
        return Item(*_key(row), row["owner"] or self._owner, self._own, row)

    def _channels(self, urls: Sequence[str]) -> tuple[Channel, ...]:
        return tuple(dict.fromkeys(self._by_url[url] for url in urls))


Compose = Callable[[Sequence[Item]], tuple[Message, Sequence[Picture]]]
"""Items that go in one message -> the message and its pictures."""


@dataclass
class Outbox:
    """Sends items, and stores which channels took them."""

    messages: MessageRepository
    resolve: ResolveConnection | None = None
    """For channels that an Airflow Connection names."""
    deliveries: list[Delivery] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    """Messages that no channel took, with the reasons."""

    def unsent(self, items: Sequence[Item]) -> list[Item]:
        """Return the items of which something is still to be sent."""
        taken = self.messages.deliveries([each.key for each in items])
        return [each for each in items if "" not in taken.get(each.key, ())]

    def send(
        self,
        items: Sequence[Item],
        compose: Compose,
        about: Mapping[str, Any],
        late: Collection[str] = (),
    ) -> None:
        """Send each channel the items that it lacks, in one message.

        Args:
            items: unsent ones.
            compose: makes the message of some of them.
            about: suite, cluster, night, kind and run_id of the message.
            late: names of channels that get nothing now; their items wait.
        """
        stored = self.messages.deliveries([each.key for each in items])
        took = {each: stored.get(each.key, set()) for each in items}
        waits: set[Item] = set()
        for urls, batch in _batches(items, took):
            channels = [_channel(batch[0], url) for url in urls]
            on_time = [channel for channel in channels if channel.name not in late]
            if len(on_time) < len(channels):
                waits.update(batch)
            if on_time:
                self._deliver(on_time, batch, compose, about, took)
        self.messages.settle(
            [each.key for each in items if each not in waits and (took[each] or not each.channels)]
        )

    def _deliver(
        self,
        channels: Sequence[Channel],
        batch: Sequence[Item],
        compose: Compose,
        about: Mapping[str, Any],
        took: Mapping[Item, set[str]],
    ) -> None:
        composed, pictures = compose(batch)
        sent = send(channels, composed.title, composed.body, self.resolve, pictures)
        self.deliveries += sent
        for channel, delivery in zip(channels, sent, strict=True):
            if delivery.sent:
                names = {each.key: _channel(each, channel.url).name for each in batch}
                row = {**about, "title": composed.title, "channel": delivery.channel}
                self.messages.store(row, names)
                for each in batch:
                    took[each].add(names[each.key])
        if not any(delivery.sent for delivery in sent):
            reasons = "; ".join(f"{d.channel}: {d.error}" for d in sent)
            self.refusals.append(f'the message "{composed.title}": {reasons}')


def _batches(
    items: Sequence[Item], took: Mapping[Item, Collection[str]]
) -> list[tuple[list[str], list[Item]]]:
    """Return unsent items by channel; channels with the same items are one batch."""
    by_url: dict[str, list[Item]] = {}
    for each in items:
        for channel in each.channels:
            if channel.name not in took[each]:
                by_url.setdefault(channel.url, []).append(each)
    batches: dict[tuple[Item, ...], list[str]] = {}
    for url, several in by_url.items():
        batches.setdefault(tuple(several), []).append(url)
    return [(urls, list(several)) for several, urls in batches.items()]


def _channel(item: Item, url: str) -> Channel:
    return next(channel for channel in item.channels if channel.url == url)


def _key(row: Mapping[str, Any]) -> ItemKey:
    return row["kind"], row["subject"], row["news"]


def _matches(route: Route, row: Mapping[str, Any]) -> bool:
    axes = row["axes"] or {}
    return (
        (not route.frameworks or axes.get("framework") in route.frameworks)
        and (not route.workloads or axes.get("workload") in route.workloads)
        and (not route.clusters or row["cluster"] in route.clusters)
        and (not route.verdicts or row["verdict"] in route.verdicts)
    )
