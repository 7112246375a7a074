"""An API server of one namespace: pods run where this process does, and `exec` starts processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from nightbench.core.model import Cluster, KubernetesPolicy, Node
from nightbench.gang.kubernetes_api import ApiAccess, PodTarget
from nightbench.gang.pod_process import PROTOCOLS

Document = dict[str, Any]

CLUSTER = Cluster("pods", (Node("n1", "host-1", ""), Node("n2", "host-2", "")))
POLICY = KubernetesPolicy(images={"fake": "registry.example.org/fake:1"}, wait_s=2.0)


def running(pod: Document) -> Document:
    """The status of a pod that runs."""
    return {
        "phase": "Running",
        "podIP": "127.0.0.1",
        "containerStatuses": [{"name": "node", "state": {"running": {}}}],
    }


def waiting(reason: str, message: str) -> Callable[[Document], Document]:
    """A status of a pod whose container waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "node", "state": state}]}
    return lambda pod: status


def unschedulable(message: str) -> Callable[[Document], Document]:
    """A status of a pod for which no machine is found."""
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return lambda pod: {"phase": "Pending", "conditions": [{**why, "message": message}]}


class FakeKubernetes:
    """The server; `status_of` says what becomes of a pod that is created."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pods: dict[str, Document] = {}
        self.pod_groups: dict[str, Document] | None = None
        """PodGroups by their names; None: not served, as by most clusters."""
        self.created: list[Document] = []
        self.status_of: Callable[[Document], Document] = running
        self.refusal: tuple[int, str] | None = None
        """Status and message with which pods are refused."""
        self.denied: set[str] = set()
        self.quotas: list[Document] = []
        self.events: list[Document] = []
        """Events of all pods, in any order."""
        self.protocol = PROTOCOLS[1]
        self._serial = 0
        self.token = "secret"
        self.failures: dict[str, list[int]] = {}
        """Method -> statuses of its next answers."""
        self.asked: set[tuple[str, str]] = set()
        """Verb and resource of all requests of the namespace."""
        self.before_exec: Callable[[str], None] = lambda pod: None
        self.exec_error: tuple[int, str] | None = None
        """Status and message with which commands are refused."""
        self.cannot_run = ""
        """Message of the container's engine, instead of a command that runs."""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[ApiAccess]:
        """Serve; yield how it is reached."""
        app = web.Application(middlewares=[self._guard])
        space = "/api/v1/namespaces/default"
        app.router.add_get("/version", self._version)
        app.router.add_get(f"{space}/pods", self._list)
        app.router.add_post(f"{space}/pods", self._create)
        app.router.add_delete(f"{space}/pods/{{name}}", self._delete)
        app.router.add_get(f"{space}/pods/{{name}}/exec", self._exec)
        app.router.add_get(f"{space}/events", self._list_events)
        app.router.add_get(f"{space}/resourcequotas", self._list_quotas)
        scheduling = "/apis/scheduling.k8s.io/v1alpha2"
        app.router.add_get(scheduling, self._resources)
        app.router.add_post(f"{scheduling}/namespaces/default/podgroups", self._create_group)
        app.router.add_post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._review)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        cluster = {"name": "c", "cluster": {"server": f"http://{host}:{port}"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        document = {"clusters": [cluster], "contexts": [context], "current-context": "x"}
        document["users"] = [{"name": "u", "user": {"token": "secret"}}]
        try:
            yield ApiAccess("kubernetes_default", text=json.dumps(document))
        finally:
            await runner.cleanup()

    @web.middleware
    async def _guard(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return _json({"kind": "Status", "message": "Unauthorized"}, 401)
        _, _, named = request.path.partition("/namespaces/default/")
        if named:
            resource = "pods/exec" if named.endswith("/exec") else named.partition("/")[0]
            verbs = {"GET": "list", "POST": "create", "DELETE": "delete"}
            verb = "get" if resource == "pods/exec" else verbs[request.method]
            self.asked.add((verb, resource))
        if self.failures.get(request.method) and not named.endswith("/exec"):
            status = self.failures[request.method].pop(0)
            return _json({"kind": "Status", "message": "not now"}, status)
        return await handler(request)

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"gitVersion": "v1.20.2"})

    async def _list(self, request: web.Request) -> web.Response:
        wanted = dict(w.split("=") for w in request.query["labelSelector"].split(","))
        found = [p for p in self.pods.values() if wanted.items() <= p["metadata"]["labels"].items()]
        return _json({"items": found})

    async def _create(self, request: web.Request) -> web.Response:
        pod = await request.json()
        if self.refusal is not None:
            status, message = self.refusal
            return _json({"kind": "Status", "message": message}, status)
        name = pod["metadata"]["name"]
        if name in self.pods:
            return _json({"kind": "Status", "message": "exists"}, 409)
        self._serial += 1
        created = datetime(2026, 11, 29, tzinfo=UTC).replace(second=self._serial % 60)
        pod["metadata"]["creationTimestamp"] = created.isoformat()
        pod["metadata"]["uid"] = f"uid-{self._serial}"
        known = self.pod_groups is None or _group_of(pod) in {None, *self.pod_groups}
        pod["status"] = self.status_of(pod) if known else {"phase": "Pending"}
        if pod["status"].get("podIP"):
            pod["spec"]["nodeName"] = "machine-1"
        self.pods[name] = pod
        self.created.append(pod)
        return _json(pod, 201)

    async def _resources(self, request: web.Request) -> web.Response:
        if self.pod_groups is None:
            return _json({"kind": "Status", "message": "not found"}, 404)
        return _json({"resources": [{"name": "workloads"}, {"name": "podgroups"}]})

    async def _create_group(self, request: web.Request) -> web.Response:
        group = await request.json()
        if self.pod_groups is None:
            return _json({"kind": "Status", "message": "not found"}, 404)
        if group["metadata"]["name"] in self.pod_groups:
            return _json({"kind": "Status", "message": "exists"}, 409)
        self.pod_groups[group["metadata"]["name"]] = group
        members = group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        mine = [p for p in self.pods.values() if _group_of(p) == group["metadata"]["name"]]
        for pod in mine if len(mine) >= members else ():
            pod["status"], pod["spec"]["nodeName"] = running(pod), "machine-1"
        return _json(group, 201)

    async def _delete(self, request: web.Request) -> web.Response:
        found = self.pods.pop(request.match_info["name"], None)
        return _json(found or {"message": "not found"}, 200 if found else 404)

    async def _list_events(self, request: web.Request) -> web.Response:
        if "list events" in self.denied:
            return _json({"kind": "Status", "message": "events is forbidden"}, 403)
        name = request.query["fieldSelector"].partition("involvedObject.name=")[2]
        found = [each for each in self.events if each["involvedObject"]["name"] == name]
        return _json({"items": found})

    async def _list_quotas(self, request: web.Request) -> web.Response:
        return _json({"items": self.quotas})

    async def _review(self, request: web.Request) -> web.Response:
        asked = (await request.json())["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        allowed = f"{asked['verb']} {resource}" not in self.denied
        return _json({"status": {"allowed": allowed}}, 201)

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        self.before_exec(request.match_info["name"])
        if self.exec_error is not None:
            status, message = self.exec_error
            return _json({"kind": "Status", "message": message}, status)
        if request.match_info["name"] not in self.pods:
            return _json({"kind": "Status", "message": "not found"}, 404)
        socket = web.WebSocketResponse(protocols=[self.protocol])
        await socket.prepare(request)
        if self.cannot_run:
            refused = {"status": "Failure", "message": self.cannot_run}
            await socket.send_bytes(b"\x03" + json.dumps(refused).encode())
            await socket.close()
            return socket
        process = await asyncio.create_subprocess_exec(
            *request.query.getall("command"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home)},
            start_new_session=True,
        )
        assert process.stdin is not None
        copying = [
            asyncio.create_task(_copy(process.stdout, socket, 1)),
            asyncio.create_task(_copy(process.stderr, socket, 2)),
        ]
        reading = asyncio.create_task(_feed(socket, process.stdin))
        ended = asyncio.gather(*copying)
        await asyncio.wait([ended, reading], return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            ended.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.gather(process.wait(), ended, return_exceptions=True)
            return socket
        code = await process.wait()
        status: Document = {"status": "Success"}
        if code:
            cause = {"reason": "ExitCode", "message": str(code if code > 0 else 128 - code)}
            status = {"status": "Failure", "details": {"causes": [cause]}}
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(b"\x03" + json.dumps(status).encode())
            await socket.close()
        reading.cancel()
        return socket


def _group_of(pod: Document) -> str | None:
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")


def _json(document: Any, status: int = 200) -> web.Response:
    return web.json_response(document, status=status)


async def _copy(
    stream: asyncio.StreamReader | None, socket: web.WebSocketResponse, channel: int
) -> None:
    assert stream is not None
    while piece := await stream.read(65536):
        await socket.send_bytes(bytes([channel]) + piece)


async def _feed(socket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data:
            if message.data[0] == 0:
                stdin.write(message.data[1:])
            elif message.data[0] == 255:
                stdin.close()
    stdin.close()


def on(fake: FakeKubernetes, work: Callable[[dict[str, PodTarget]], Awaitable[Any]]) -> Any:
    """Do some work with the nodes of `CLUSTER`, whose pods the server runs."""

    async def run() -> Any:
        async with fake.serving() as access:
            names = ("n1", "n2")
            return await work(
                {name: PodTarget(name, access, POLICY, sys.executable) for name in names}
            )

    return asyncio.run(run())
