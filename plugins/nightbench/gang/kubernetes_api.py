"""Requests to the API server of Kubernetes.

`kubernetes_asyncio` reads the credentials and opens the session; objects stay JSON documents, so
that one version of it serves API servers from 1.20 to the newest. It is imported when a cluster
with `kubernetes` is reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from nightbench.core.model import KubernetesPolicy, SlurmPolicy
from nightbench.core.pod_manifests import CONTAINER, SCHEDULING
from nightbench.gang.errors import GangError
from nightbench.gang.pod_process import PROTOCOLS, PodProcess

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient

    from nightbench.gang.pod_transport import PodTransport
    from nightbench.gang.transport import Pool

T = TypeVar("T")

REQUEST_S = 30.0

HEARTBEAT_S = 15.0
"""Interval of pings on an exec stream; one without an answer in half of it is lost."""

POD_GROUPS = ("v1beta1", "v1alpha2")
"""Versions of the API of PodGroups, the newest first: of Kubernetes 1.37 and 1.36."""

Document = dict[str, Any]


class ApiRefused(Exception):
    """The API server answered, and refused."""

    def __init__(self, status: int, message: str, what: str) -> None:
        self.status = status
        self.message = message
        self.what = what
        super().__init__(f"{what}: {status} {message}")


class ApiUnreachable(Exception):
    """No answer of the API server, or only that it cannot answer now."""


@dataclass(frozen=True)
class ApiAccess:
    """How an API server is reached: one of in-cluster, kubeconfig file or kubeconfig text."""

    conn_id: str
    """The Airflow Connection, for messages."""
    in_cluster: bool = False
    path: str | None = None
    """Kubeconfig file; the user's own (KUBECONFIG, ~/.kube/config) if nothing is given."""
    text: str | None = None
    """Content of a kubeconfig as JSON."""
    context: str | None = None
    """Context of the kubeconfig; its current one when None."""

    def __repr__(self) -> str:
        return f"ApiAccess({self.conn_id})"


@dataclass(frozen=True)
class PodTarget:
    """How the pod of a node is reached."""

    node: str
    access: ApiAccess
    policy: KubernetesPolicy = field(compare=False, repr=False)
    python: str = field(compare=False)
    """Python in the pod."""
    shared: bool = field(default=False, compare=False)
    """Several pods may run on one machine."""
    job_id: str | None = None
    """The job whose pod it is; None: a node of the cluster, which has no pod."""
    slurm: SlurmPolicy | None = None

    @property
    def address(self) -> str:
        """Namespace and node, for messages."""
        return f"{self.policy.namespace}/{self.node}"

    def of_job(self, job_id: str) -> PodTarget:
        """Return how the pod of a job is reached."""
        return replace(self, job_id=job_id or None)

    def transport(self, pool: Pool) -> PodTransport:
        """Return a transport that removes itself from `pool` when it is closed."""
        from nightbench.gang.pod_transport import PodTransport

        return PodTransport(self, pool)


class KubernetesApi:
    """One session with an API server."""

    def __init__(self, client: ApiClient, load: Callable[[], Awaitable[None]]) -> None:
        """`load` reads the credentials again."""
        self._client = client
        self._load = load
        self._loading = asyncio.Lock()
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

        session = self._client.rest_client.pool_manager

        async def send(headers: Mapping[str, str]) -> Document:
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
                    if answer.status == 429 or answer.status >= 500:
                        raise ApiUnreachable(f"{self.host}: {answer.status} {_message(text)}")
                    if answer.status >= 400:
                        raise ApiRefused(answer.status, _message(text), f"{method} {path}")
                    document: Document = json.loads(text)
                    return document
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
                raise ApiUnreachable(f"{self.host}: {why}") from error

        return await self._authorized(send)

    async def pods(self, namespace: str, labels: Mapping[str, str]) -> list[Document]:
        """Return the pods that have all labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = f"/api/v1/namespaces/{namespace}/pods"
        found: list[Document] = (await self.request("GET", path, {"labelSelector": selector}))[
            "items"
        ]
        return found

    async def events(self, namespace: str, pod: str) -> list[dict[str, str]]:
        """Return reason and message of a pod's events, the oldest first.

        Without the right to list them there are none; the preflight names the right.
        """
        named = {"fieldSelector": f"involvedObject.kind=Pod,involvedObject.name={pod}"}
        path = f"/api/v1/namespaces/{namespace}/events"
        answer = await self._tolerate({403}, "GET", path, query=named) or {"items": []}
        # An event has one of two times.
        at = ("lastTimestamp", "eventTime")
        order = sorted(answer["items"], key=lambda e: max(str(e.get(key) or "") for key in at))
        return [{key: str(e.get(key) or "") for key in ("reason", "message")} for e in order]

    async def create(self, kind: str, manifest: Document) -> None:
        """Create one of `pods` or `podgroups`; one of its name may exist already."""
        version, namespace = manifest["apiVersion"], manifest["metadata"]["namespace"]
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        await self._tolerate({409}, "POST", f"{root}/namespaces/{namespace}/{kind}", body=manifest)

    async def pod_groups(self) -> str | None:
        """Return the version of the API of PodGroups; None if the server has none."""
        for version in POD_GROUPS:
            served = await self._tolerate({404}, "GET", f"/apis/{SCHEDULING}/{version}")
            if any(each["name"] == "podgroups" for each in (served or {}).get("resources", ())):
                return version
        return None

    async def delete_pod(self, namespace: str, name: str) -> None:
        """Have a pod deleted; it may be gone already."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        await self._tolerate({404, 409}, "DELETE", path)

    async def _tolerate(
        self, statuses: Collection[int], method: str, path: str, **more: Any
    ) -> Document | None:
        """Return the answer to a request; None if it is refused with one of these statuses."""
        try:
            return await self.request(method, path, **more)
        except ApiRefused as refused:
            if refused.status not in statuses:
                raise
            return None

    async def execute(self, namespace: str, pod: str, argv: Sequence[str]) -> PodProcess:
        """Start a command in a pod.

        Raises:
            ApiRefused: the server or the node's kubelet refuses it.
            ApiUnreachable: the server does not answer.
        """
        import aiohttp
        from yarl import URL

        words = [("command", word) for word in argv]
        streams = [(name, "true") for name in ("stdin", "stdout", "stderr")]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        url = URL(self.host + path).with_query([("container", CONTAINER), *streams, *words])
        session = self._client.rest_client.pool_manager

        async def send(headers: Mapping[str, str]) -> PodProcess:
            try:
                socket = await session.ws_connect(
                    url,
                    headers=headers,
                    protocols=PROTOCOLS,
                    heartbeat=HEARTBEAT_S,
                    max_msg_size=0,
                    proxy=self._client.configuration.proxy,
                )
            except aiohttp.WSServerHandshakeError as error:
                # aiohttp drops the body of the answer, which names the right.
                denied = f"create or get pods/exec in namespace {namespace}"
                why = denied if error.status in (401, 403) else error.message
                raise ApiRefused(error.status, why, f"exec in pod {pod}") from error
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
                raise ApiUnreachable(f"{self.host}: {why}") from error
            return PodProcess(socket)

        return await self._authorized(send)

    async def _authorized(self, send: Callable[[Mapping[str, str]], Awaitable[T]]) -> T:
        """Send a request; once more with new credentials if the server rejects those in use."""
        used = await self._headers()
        try:
            return await send(used)
        except ApiRefused as refused:
            if refused.status != 401 or not await self._renewed(used):
                raise
        return await send(await self._headers())

    async def _renewed(self, used: Mapping[str, str]) -> bool:
        """Load the credentials again if needed; return whether they are new."""
        async with self._loading:
            if await self._headers() == used:
                try:
                    await self._load()
                except GangError as error:
                    raise ApiUnreachable(str(error)) from error
            return await self._headers() != used

    async def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        await self._client.update_params_for_auth(headers, [], ["BearerToken"])
        return headers

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()


def _message(text: str) -> str:
    """Return the message of a Status; the beginning of the text if it is none."""
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
            "the package kubernetes-asyncio is not installed; clusters with `kubernetes` need "
            "it: pip install 'nightbench[kubernetes]'"
        ) from error
    found = client.Configuration()
    found.connection_pool_maxsize = 0  # each exec stream has a connection of its own
    named = f"connection {access.conn_id}"

    async def load() -> None:
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
                f"{named}: no credentials for Kubernetes: {error}. Give in_cluster, "
                "kube_config_path or kube_config in its extra"
            ) from error

    await load()
    if not found.verify_ssl:
        raise GangError(
            f"{named}: found insecure-skip-tls-verify; expected the server's certificate authority"
        )
    return KubernetesApi(client.ApiClient(found), load)
