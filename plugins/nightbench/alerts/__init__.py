"""Alerts: which verdicts somebody must see, what is said, and how it gets there."""

from nightbench.alerts.channels import Channel, Delivery, named, send
from nightbench.alerts.life import AlertChanges, LiveAlert, alerts_for
from nightbench.alerts.message import Ended, Links, Message, News, grouped, message
from nightbench.alerts.plot import Picture, picture

__all__ = [
    "AlertChanges",
    "Channel",
    "Delivery",
    "Ended",
    "Links",
    "LiveAlert",
    "Message",
    "News",
    "Picture",
    "alerts_for",
    "grouped",
    "message",
    "named",
    "picture",
    "send",
]
