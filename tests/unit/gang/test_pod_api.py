"""Credentials and rights at the API server, and commands that it or the image refuses."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path

import pytest
from tests.unit.gang.fake_kubernetes import FakeKubernetes, on

from nightbench.core.model import JobSpec, ReasonCode
from nightbench.gang import transport
from nightbench.gang.errors import NodeUnreachable, PodError, RemoteFailure
from nightbench.gang.kubernetes_api import PodTarget, opened_api
from nightbench.gang.pods import GangPods
from nightbench.gang.transport import shared_transport

pytest.importorskip("kubernetes_asyncio")


def test_a_token_that_has_expired_is_renewed_once(fake: FakeKubernetes, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first")
    script = (
        "import json,sys; print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', "
        "'kind': 'ExecCredential', 'status': {'token': open(sys.argv[1]).read(), "
        "'expirationTimestamp': '2100-01-01T00:00:00Z'}}))"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script, str(tmp_path / "token")],
        "interactiveMode": "Never",
    }

    async def work(targets: dict[str, PodTarget]) -> None:
        document = json.loads(targets["n1"].access.text or "")
        document["users"][0]["user"] = {"exec": plugin}
        access = dataclasses.replace(targets["n1"].access, text=json.dumps(document))
        fake.token = "first"
        async with opened_api(access) as api:
            await api.pods("default", {"a": "b"})
            fake.token = "second"
            (tmp_path / "token").write_text("second")
            both = [api.pods("default", {"a": "b"}) for _ in range(2)]
            assert await asyncio.gather(*both) == [[], []]
            fake.token = "third"
            with pytest.raises(Exception, match="401"):
                await api.pods("default", {"a": "b"})
            (tmp_path / "token").write_text("third")
            with pytest.raises(Exception, match="404"):
                await api.execute("default", "none", ["true"])

    on(fake, work)


def test_a_right_that_is_missing_is_named(fake: FakeKubernetes, job: JobSpec) -> None:
    fake.exec_error = (403, "forbidden")

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        with pytest.raises(PodError, match="create or get pods/exec in namespace default") as no:
            await node.run(["true"], timeout_s=30)
        assert no.value.code is ReasonCode.API_FORBIDDEN
        await node.close()

    on(fake, work)


def test_an_image_without_a_shell_is_named(fake: FakeKubernetes, job: JobSpec) -> None:
    fake.cannot_run = 'OCI runtime exec failed: exec: "sh": executable file not found in $PATH'

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        for ask in (node.run(["true"], timeout_s=30), node.exists("/")):
            with pytest.raises(RemoteFailure, match=r"executable file not found.*needs sh"):
                await ask
        fake.cannot_run = "cannot exec in a stopped container"
        with pytest.raises(NodeUnreachable):
            await node.run(["true"], timeout_s=30)
        await node.close()

    on(fake, work)


AGENT = """\
import json, os, sys, time
if not os.path.exists(__file__ + ".hung"):
    open(__file__ + ".hung", "w").close()
    time.sleep(60)
for line in iter(sys.stdin.readline, ""):
    print(json.dumps({"id": json.loads(line)["id"], "is": "here"}), flush=True)
"""


def test_a_stream_that_hangs_is_opened_again(
    fake: FakeKubernetes, job: JobSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    monkeypatch.setattr(transport, "FILE_TIMEOUT_S", 3.0)

    async def work(targets: dict[str, PodTarget]) -> None:
        await GangPods(job, targets).create()
        node = shared_transport(targets["n1"].of_job(job.job_id))
        words = (sys.executable, str(tmp_path / "agent.py"), {})
        both = [node.follow(*words) for _ in range(2)]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [type(each) for each in found] == [NodeUnreachable] * 2
        monkeypatch.setattr(transport, "FILE_TIMEOUT_S", 30.0)
        assert (await node.follow(*words))["is"] == "here"
        await node.close()

    on(fake, work)
