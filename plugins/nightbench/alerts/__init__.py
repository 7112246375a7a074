"""Alerts: which verdicts open one, what its message contains, and how it is sent."""

from nightbench.alerts.alert_changes import AlertChanges, LiveAlert, alerts_for
from nightbench.alerts.channels import Channel, Delivery, named, send
from nightbench.alerts.message import AlertItem, EndedAlert, Links, Message, grouped, message
from nightbench.alerts.plot_png import Picture, picture
