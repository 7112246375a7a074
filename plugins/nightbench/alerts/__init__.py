"""Alerts: which verdicts somebody must see, what is said, and how it gets there."""

from nightbench.alerts.channels import Delivery, send
from nightbench.alerts.life import AlertChanges, LiveAlert, alerts_for
from nightbench.alerts.message import Message, News, message

__all__ = [
    "AlertChanges",
    "Delivery",
    "LiveAlert",
    "Message",
    "News",
    "alerts_for",
    "message",
    "send",
]
