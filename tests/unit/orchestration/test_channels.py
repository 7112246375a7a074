"""Airflow Connections as channels: what Airflow's own notifiers use, Apprise can send by."""

from __future__ import annotations

import email
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apprise
import pytest

from nightbench.alerts import Picture, send
from nightbench.core.errors import UserError
from nightbench.orchestration.connections import channel_url

# Some of Apprise's plugins import what Python will drop.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", raising=False)


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> Any:
    def given(**connection: Any) -> str:
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", json.dumps(connection))
        return channel_url("team")

    return given


class Mailbox(socketserver.StreamRequestHandler):
    """An SMTP server that takes one mail after the other."""

    def handle(self) -> None:
        self.wfile.write(b"220 mailbox\r\n")
        while line := self.rfile.readline():
            word = line[:4].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.mails.append(email.message_from_bytes(b"".join(lines)))
            if word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            self.wfile.write(b"250 ok\r\n")


@pytest.fixture
def mailbox() -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox) as server:
        server.mails = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "config", [{"path": "json://h/x"}, [{"path": "json://h/x"}], '{"path": "json://h/x"}']
)
def test_the_channel_of_a_connection(team: Any, config: Any) -> None:
    assert team(conn_type="apprise", extra={"config": config}) == "json://h/x"


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({"conn_type": "apprise"}, "no channel in it"),
        ({"conn_type": "slackwebhook"}, "no token in its password"),
        (
            {"conn_type": "smtp", "host": "h", "extra": {"from_email": "a@b"}},
            "no host, from_email or to_email",
        ),
    ],
)
def test_a_connection_without_a_channel_is_refused(
    team: Any, connection: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        team(**connection)


@pytest.mark.parametrize("start", ["", "https://hooks.slack.com/services/"])
def test_slack_as_airflow_s_own_notifier_has_it(team: Any, start: str) -> None:
    token = "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    found = apprise.Apprise.instantiate(team(conn_type="slackwebhook", password=start + token))
    assert type(found).__name__ == "NotifySlack"
    assert "/".join((found.token_a, found.token_b, found.token_c)) == token


def test_mail_as_airflow_s_own_notifier_has_it_comes_with_the_plot(team: Any, mailbox: Any) -> None:
    url = team(
        conn_type="smtp",
        host="127.0.0.1",
        port=mailbox.server_address[1],
        extra={
            "from_email": "nightbench@example.org",
            "to_email": ["ada@example.org", "grace@example.org"],
            "disable_ssl": True,
            "disable_tls": True,
        },
    )
    plot = Picture("plot.png", b"\x89PNG and so on")
    (delivery,) = send([url], "title", "resnet50: -10.0 %", pictures=[plot])
    assert delivery.sent, delivery.error
    assert {mail["To"] for mail in mailbox.mails} == {"ada@example.org", "grace@example.org"}
    for mail in mailbox.mails:
        assert mail["Subject"] == "title"
        parts = {part.get_content_type(): part.get_payload(decode=True) for part in mail.walk()}
        assert b"resnet50: -10.0 %" in parts["text/plain"]
        assert parts["image/png"] == plot.data


def test_mail_keeps_its_password_and_its_encryption(team: Any) -> None:
    given = {"conn_type": "smtp", "host": "mail.example.org", "login": "ada@b", "password": "p/@:s"}
    extra = {"from_email": "a@b.org", "to_email": "c@d.org"}
    found = apprise.Apprise.instantiate(team(**given, extra=extra))
    assert (found.user, found.password, found.secure_mode) == ("ada@b", "p/@:s", "ssl")
    found = apprise.Apprise.instantiate(team(**given, extra=extra | {"disable_ssl": True}))
    assert found.secure_mode == "starttls"
