"""`nightbench alert test`: sends a test message to each channel of a suite."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from nightbench.cli import common
from nightbench.cli.common import FAILED, say
from nightbench.cli.selection import Selection
from nightbench.core.errors import UserError


def test_channels(suite: str, *, json: bool) -> int:
    """Send a test message with a plot to every channel; return the exit code.

    Raises:
        UserError: the suite is wrong, or names no channel.
    """
    from nightbench.alerts import picture, send
    from nightbench.alerts.routing import channels_of
    from nightbench.core.model import HistoryPoint

    chosen = Selection(suite).choose().suite
    channels = channels_of(chosen.alerts, chosen.routes)
    if not channels:
        raise UserError(
            f"{chosen.source}: the suite names no channel; expected alerts: [URL, …], or routes "
            "with some"
        )
    now = datetime.now(UTC)
    made_up = [
        HistoryPoint(now - timedelta(days=29 - night), level * (1 + 0.004 * (night % 5 - 2)))
        for night, level in enumerate([100.0] * 24 + [90.0] * 6)
    ]
    plot = picture(f"{chosen.name}-test", made_up, "samples", made_up[24].at, 100.0)
    title = f"Nightbench {chosen.name}: a test message"
    body = (
        "Nothing has happened: this is a test of the channels of this suite "
        f"(`nightbench alert test {suite}`).\nAn alert would come like this, with the plot of its "
        f"series where the channel takes pictures. Owner: {chosen.owner}."
    )
    deliveries = send(channels, title, body, common.channel_url, [plot] if plot else [])
    if json:
        common.print_json([asdict(delivery) for delivery in deliveries])
    else:
        for delivery in deliveries:
            say(f"{delivery.channel}: {'sent' if delivery.sent else delivery.error}")
    return 0 if all(delivery.sent for delivery in deliveries) else FAILED
