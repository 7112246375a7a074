"""Requests to the API server of Kubernetes, and its exec stream.

`kubernetes_asyncio` reads the credentials and opens the session; objects stay JSON documents, so
that one version of it serves API servers from 1.20 to the newest. It is imported when a cluster
with `kubernetes` is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from nightbench.core.pod_manifests import CONTAINER
from nightbench.gang.errors import GangError

if TYPE_CHECKING:
    import aiohttp
    from kubernetes_asyncio.client import ApiClient

REQUEST_S = 30.0

HEARTBEAT_S = 15.0
"""Interval of pings on an exec stream; one without an answer in half of it is lost."""

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
"""Of the exec stream, the newest first; the fifth can end a command's input."""

LINE_BYTES = 16 << 20
"""Longest line that a command in a pod may print."""

PIECE_BYTES = 1 << 16
"""Bytes of input in one message."""

STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
"""Channels: the first byte of each message."""

Document = dict[str, Any]


class ApiRefused(Exception):
    """The API server answered, and refused."""

    def __init__(self, status: int, message: str, what: str) -> None:
        self.status = status
        self.message = message
        self.what = what
        super().__init__(f"{what}: {status} {message}")


class ApiUnreachable(Exception):
    """No answer of the API server."""


@dataclass(frozen=True)
class ApiAccess:
    """How an API server is reached: one of in-cluster, kubeconfig file or kubeconfig text."""

    conn_id: str
    """The Airflow Connection, for messages."""
    in_cluster: bool = False
    path: str | None = None
    """Kubeconfig file; the user's own (KUBECONFIG, ~/.kube/config) where nothing is given."""
    text: str | None = None
    """Content of a kubeconfig as JSON."""
    context: str | None = None
    """Context of the kubeconfig; its current one when None."""

    def __repr__(self) -> str:
        return f"ApiAccess({self.conn_id})"


class KubernetesApi:
    """One session with an API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.host = str(client.configuration.host)
        self.users = 0

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Document | None = None,
    ) -> Document:
        """Return the answer to a request.

        Raises:
            ApiRefused: the server refuses it.
            ApiUnreachable: the server does not answer.
        """
        import aiohttp

        headers = await self._headers()
        session = self._client.rest_client.pool_manager
        try:
            async with session.request(
                method,
                self.host + path,
                params=dict(query or {}),
                json=body,
                headers=headers,
                proxy=self._client.configuration.proxy,
                timeout=aiohttp.ClientTimeout(total=REQUEST_S),
            ) as answer:
                text = await answer.text()
                if answer.status >= 400:
                    raise ApiRefused(answer.status, _message(text), f"{method} {path}")
                document: Document = json.loads(text)
                return document
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ApiUnreachable(f"{self.host}: {why}") from error

    async def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Document]:
        """Return the pods that have all labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = f"/api/v1/namespaces/{namespace}/pods"
        found: list[Document] = (await self.request("GET", path, {"labelSelector": selector}))[
            "items"
        ]
        return found

    async def create_pod(self, pod: Document) -> None:
        """Create a pod; one of its name may exist already."""
        try:
            await self.request(
                "POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", body=pod
            )
        except ApiRefused as refused:
            if refused.status != 409:
                raise

    async def delete_pod(self, namespace: str, name: str) -> None:
        """Have a pod deleted; it may be gone already."""
        try:
            await self.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
        except ApiRefused as refused:
            if refused.status not in (404, 409):
                raise

    async def execute(self, namespace: str, pod: str, argv: Sequence[str]) -> PodProcess:
        """Start a command in a pod.

        Raises:
            ApiRefused: the server or the machine's kubelet refuses it.
            ApiUnreachable: the server does not answer.
        """
        import aiohttp
        from yarl import URL

        words = [("command", word) for word in argv]
        streams = [(name, "true") for name in ("stdin", "stdout", "stderr")]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        url = URL(self.host + path).with_query([("container", CONTAINER), *streams, *words])
        session = self._client.rest_client.pool_manager
        try:
            socket = await session.ws_connect(
                url,
                headers=await self._headers(),
                protocols=PROTOCOLS,
                heartbeat=HEARTBEAT_S,
                max_msg_size=0,
                proxy=self._client.configuration.proxy,
            )
        except aiohttp.WSServerHandshakeError as error:
            raise ApiRefused(error.status, error.message, f"exec in pod {pod}") from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            raise ApiUnreachable(f"{self.host}: {why}") from error
        return PodProcess(socket)

    async def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        return headers

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def _message(text: str) -> str:
    """Return the message of a Status; the beginning of the text where it is none."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip()[:300]


# --- one session for each server in an event loop ---------------------------------------------

_OPEN: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ApiAccess, KubernetesApi]]
_OPEN = WeakKeyDictionary()


async def acquire_api(access: ApiAccess) -> KubernetesApi:
    """Return this event loop's session, and count one more user of it.

    Raises:
        GangError: the credentials cannot be read, or kubernetes_asyncio is missing.
    """
    sessions = _OPEN.setdefault(asyncio.get_running_loop(), {})
    if access not in sessions:
        opened = await _open(access)
        if access in sessions:  # another task has opened it meanwhile
            await opened.close()
        else:
            sessions[access] = opened
    sessions[access].users += 1
    return sessions[access]


async def release_api(access: ApiAccess) -> None:
    """Remove one user; the last one closes the session."""
    sessions = _OPEN.setdefault(asyncio.get_running_loop(), {})
    session = sessions[access]
    session.users -= 1
    if session.users <= 0:
        del sessions[access]
        await session.close()


@contextlib.asynccontextmanager
async def opened_api(access: ApiAccess) -> AsyncIterator[KubernetesApi]:
    """Yield this event loop's session."""
    api = await acquire_api(access)
    try:
        yield api
    finally:
        await release_api(access)


async def _open(access: ApiAccess) -> KubernetesApi:
    try:
        from kubernetes_asyncio import client, config
    except ImportError as error:
        raise GangError(
            "the package kubernetes-asyncio is not installed; expected it where clusters have "
            "`kubernetes`: pip install 'nightbench[kubernetes]'"
        ) from error
    found = client.Configuration()
    found.connection_pool_maxsize = 0  # each exec stream has a connection of its own
    named = f"connection {access.conn_id}"
    try:
        if access.in_cluster:
            config.load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        elif access.text is not None:
            await config.load_kube_config_from_dict(
                json.loads(access.text), context=access.context, client_configuration=found
            )
        else:
            await config.load_kube_config(
                config_file=access.path,
                context=access.context,
                client_configuration=found,
                persist_config=False,
            )
    except (config.ConfigException, OSError, ValueError, KeyError) as error:
        raise GangError(
            f"{named}: no credentials for Kubernetes: {error}. Give in_cluster, kube_config_path "
            "or kube_config in its extra"
        ) from error
    if not found.verify_ssl:
        raise GangError(
            f"{named}: found insecure-skip-tls-verify; expected the server's certificate authority"
        )
    return KubernetesApi(client.ApiClient(found))


# --- a command in a pod -----------------------------------------------------------------------


class _Input:
    """Input of a command; sends in the order of writing."""

    def __init__(self, process: PodProcess, can_end: bool) -> None:
        self._process = process
        self._can_end = can_end
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._process.ended:
            raise BrokenPipeError("the command has ended")
        for begin in range(0, len(data), PIECE_BYTES):
            self._pieces.put_nowait(bytes([STDIN]) + data[begin : begin + PIECE_BYTES])

    def write_eof(self) -> None:
        """End the input, if the protocol can do so (v5, since Kubernetes 1.30)."""
        if self._can_end:
            self._pieces.put_nowait(bytes([CLOSE, STDIN]))

    async def send(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Send pieces until this is cancelled."""
        with contextlib.suppress(ConnectionError):  # the reader reports it
            while True:
                await socket.send_bytes(await self._pieces.get())


class PodProcess:
    """A command in a pod; see `nightbench.gang.process.RemoteProcess`."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.stdin = _Input(self, socket.protocol == PROTOCOLS[0])
        self.stdout = asyncio.StreamReader(LINE_BYTES)
        self.stderr = asyncio.StreamReader(LINE_BYTES)
        self.returncode: int | None = None
        self.refusal: str | None = None
        """Why the container's engine did not run the command."""
        self._sending = asyncio.create_task(self.stdin.send(socket))
        self._reading = asyncio.create_task(self._read())

    @property
    def ended(self) -> bool:
        """Whether the stream has ended."""
        return self._reading.done()

    async def wait_closed(self) -> None:
        """Wait for the end of the stream."""
        await asyncio.shield(self._reading)

    def close(self) -> None:
        """End the stream; the command sees the end of its input."""
        self._reading.cancel()

    async def _read(self) -> None:
        import aiohttp

        outputs = {STDOUT: self.stdout, STDERR: self.stderr}
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, content = message.data[0], message.data[1:]
                if channel in outputs:
                    outputs[channel].feed_data(content)
                elif channel == STATUS:
                    self._take_status(content)
        finally:
            self._sending.cancel()
            for stream in outputs.values():
                stream.feed_eof()
            await self._socket.close()

    def _take_status(self, content: bytes) -> None:
        document = json.loads(content)
        if document.get("status") == "Success":
            self.returncode = 0
            return
        causes = (document.get("details") or {}).get("causes") or []
        exits = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
        if exits:
            self.returncode = int(exits[0])
        else:
            self.refusal = str(document.get("message"))
