"""Messages go through Apprise to a real HTTP server on loopback."""

import base64
import contextlib
import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from apprise.decorators import notify

from nightbench.alerts import Picture, named, send
from nightbench.core.errors import UserError


@pytest.fixture
def server():
    """A server that keeps what it is sent and answers with `server.status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = int(self.headers["Content-Length"])
            document = json.loads(self.rfile.read(length))
            self.server.received.append((self.path, document))
            refused = document.get(self.server.refuses)
            self.send_response(413 if refused else self.server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.received, http.status, http.refuses = [], 200, ""
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield http
        http.shutdown()
        thread.join()


@pytest.fixture
def closed_port():
    with contextlib.closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else gets it.
        yield held.getsockname()[1]


def url_of(server, path="hook/topsecret-token"):
    return f"json://ada:correct-horse@127.0.0.1:{server.server_port}/{path}"


def test_message_arrives_as_it_was_written(server):
    body = "regressed by 10.0%\n- baseline: 100 images/s\n<b>&amp;"
    (delivery,) = send([url_of(server)], "Nightbench demo: ünïcode", body)
    assert (delivery.channel, delivery.sent, delivery.error) == ("alerts[0] json", True, None)
    ((path, document),) = server.received
    assert path.startswith("/hook/topsecret-token")
    assert (document["title"], document["message"]) == ("Nightbench demo: ünïcode", body)


def test_channel_that_fails_is_reported_and_keeps_nothing_from_the_others(server, closed_port):
    urls = [f"json://ada:correct-horse@127.0.0.1:{closed_port}/hook/topsecret-token",
            url_of(server)]  # fmt: skip
    refused, arrived = send(urls, "title", "body")
    assert (refused.sent, arrived.sent) == (False, True)
    assert "Connection error" in refused.error
    assert len(server.received) == 1


def test_error_of_the_server_is_reported(server):
    server.status = 503
    (delivery,) = send([url_of(server)], "title", "body")
    assert not delivery.sent
    assert "503" in delivery.error


@pytest.mark.parametrize(
    "url",
    [
        "nosuch://ada:correct-horse@127.0.0.1/topsecret-token",
        "slack://correct-horse/topsecret-token",
        "correct-horse topsecret-token",
        "file:///correct-horse/topsecret-token",
        "json://ada:correct-horse@[::1/topsecret-token",
    ],
)
def test_url_that_apprise_cannot_read_is_reported_without_its_secrets(url, caplog):
    with caplog.at_level(logging.DEBUG):
        (delivery,) = send([url], "title", "body")
    assert not delivery.sent
    said = repr(delivery) + caplog.text
    assert "correct-horse" not in said
    assert "topsecret" not in said


def test_no_secret_is_logged_or_returned(server, closed_port, caplog):
    server.status = 500
    bad = f"json://ada:correct-horse@127.0.0.1:{closed_port}/hook/topsecret-token?+X-Key=hidden-key"
    with caplog.at_level(logging.DEBUG):
        deliveries = send([url_of(server), bad], "title", "body")
    said = repr(deliveries) + caplog.text
    assert not any(d.sent for d in deliveries)
    for secret in ("correct-horse", "topsecret", "hidden-key"):
        assert secret not in said


def test_apprise_logger_is_left_as_it_was():
    logger = logging.getLogger("apprise")
    before = logger.handlers[:], logger.propagate
    send(["nosuch://x"], "title", "body")
    assert (logger.handlers, logger.propagate) == before


def test_connection_is_resolved_by_the_caller(server):
    asked = []

    def resolve(conn_id):
        asked.append(conn_id)
        return url_of(server)

    (delivery,) = send(["apprise://conn/benchmarks_slack"], "title", "body", resolve)
    assert asked == ["benchmarks_slack"]
    assert delivery.sent
    assert delivery.channel == "alerts[0] connection benchmarks_slack"
    assert len(server.received) == 1


def test_connection_that_cannot_be_read_is_reported(server):
    def resolve(conn_id):
        raise KeyError("json://ada:correct-horse@example.org")

    def unknown(conn_id):
        raise UserError(f"there is no connection {conn_id}")

    urls = ["apprise://conn/a", url_of(server)]
    lost, arrived = send(urls, "title", "body", resolve)
    assert (lost.sent, lost.error) == (False, "the connection cannot be read: KeyError")
    assert arrived.sent
    assert send(urls[:1], "title", "body", unknown)[0].error == "there is no connection a"
    assert send(urls[:1], "title", "body")[0].error == (
        "connections can be read only inside Airflow"
    )


def test_no_channel_sends_nothing():
    assert send([], "title", "body") == []


PLOT = Picture("plot.png", b"\x89PNG and so on")


def test_pictures_go_along(server):
    (delivery,) = send([url_of(server)], "title", "body", pictures=[PLOT])
    assert delivery.sent
    ((_, document),) = server.received
    (attached,) = document["attachments"]
    assert (attached["filename"], attached["mimetype"]) == ("plot.png", "image/png")
    assert base64.b64decode(attached["base64"]) == PLOT.data


def test_who_refuses_the_picture_gets_the_message_alone(server):
    server.refuses = "attachments"
    (delivery,) = send([url_of(server)], "title", "body", pictures=[PLOT])
    assert delivery.sent
    assert [bool(document["attachments"]) for _, document in server.received] == [True, False]


def test_who_took_it_does_not_hear_it_again_because_another_service_did_not(server, closed_port):
    both = f"{url_of(server)}, json://127.0.0.1:{closed_port}"
    (delivery,) = send(["apprise://conn/both"], "title", "body", lambda _: both, [PLOT])
    assert (delivery.sent, len(server.received)) == (False, 1)
    assert "Connection error" in delivery.error


def test_a_digest_longer_than_a_service_takes_comes_in_parts(server):
    body = "\n".join(f"- case-{number:04}: regressed by 10.0%" for number in range(2000))
    (delivery,) = send([url_of(server)], "title", body)
    assert delivery.sent
    assert len(server.received) > 1
    arrived = "".join(document["message"] for _, document in server.received)
    assert arrived.count("regressed by") == 2000


def test_channels_are_called_by_their_place(server):
    channels = [*named(["slack://a/b/c"]), *named([url_of(server)], "routes[1].alerts")]
    assert [channel.name for channel in channels] == ["alerts[0] slack", "routes[1].alerts[0] json"]
    assert send(channels[1:], "title", "body")[0].channel == "routes[1].alerts[0] json"


def test_a_channel_whose_plugin_raises_keeps_nothing_from_the_others(server):
    @notify(on="nightbenchraises")
    def raises(*_words, **_more):
        raise RuntimeError("hook/topsecret-token")

    failed, arrived = send(["nightbenchraises://", url_of(server)], "title", "body")
    assert (failed.sent, arrived.sent) == (False, True)
    assert "topsecret" not in str(failed.error)
