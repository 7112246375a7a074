"""Login shells other than bash, and login files that print, wait or end the session."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator

import pytest
from tests.integration.access_servers import Server, server_with_shell

from nightbench.core.model import EnvironmentPolicy
from nightbench.gang import RemoteFailure, SshTransport
from nightbench.gang.errors import PythonUnusable
from nightbench.gang.node_access import Agent, Layout
from nightbench.gang.ssh_transport import quote

pytestmark = pytest.mark.openssh

NOISE = 'echo \'Welcome to "lab": {"python": 1}\'; echo oops >&2\n'
FILES = {
    "bash": {".bashrc": NOISE},
    "dash": {".profile": NOISE},
    "zsh": {".zshenv": NOISE, ".zshrc": NOISE},
    "fish": {".config/fish/config.fish": NOISE},
}
HOSTILE = [
    "",
    " ",
    "plain",
    "it's",
    "a\\b",
    "a\\\\b",
    "ends with a backslash\\",
    "'\\''",
    "\\'",
    '"double" $HOME `id` $(id) ${x} %n',
    "; touch /tmp/nb-hostile; #",
    "&& || | > < & !! !x ^ = =ls ~ ~root * ? [a] {a,b} (id)",
    "two\nlines\n",
    "tab\tand\rreturn",
    "unicode: äöü Привет 漢字 🚀 \u2028",
    "-n",
    "--",
    "%self",
    "x" * 10_000 + "'\\\"$(id)" * 100,
]


@pytest.fixture(scope="module", params=list(FILES))
def node(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Server]:
    base = tmp_path_factory.mktemp(request.param)
    with server_with_shell(base / "n", "127.0.0.7", request.param, FILES[request.param]) as found:
        yield found


@pytest.fixture
async def transport(node: Server):
    found = SshTransport(node.target())
    yield found
    await found.close()


async def test_words_reach_the_command_as_they_are(transport):
    script = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['X']]))"
    done = await transport.run([sys.executable, "-c", script, *HOSTILE], env={"X": HOSTILE[9]})
    assert done.exit == 0, done.stderr
    assert json.loads(done.stdout) == [HOSTILE, HOSTILE[9]]


async def test_noise_is_no_part_of_an_answer(node, transport):
    assert await transport.home() == str(node.folder.parent / "n-home")
    assert (await transport.run(["echo", "hello"])).stdout == b"hello\n"
    assert (await transport.run(["sh", "-c", "exit 7"])).exit == 7


async def test_a_conversation_begins_after_the_noise(transport, tmp_path):
    (tmp_path / "agent.py").write_text(
        "import json, sys, time\n"
        "for line in sys.stdin:\n"
        "    clocks = {'monotonic_s': time.monotonic(), 'wall_s': time.time()}\n"
        "    print(json.dumps(clocks), flush=True)\n"
    )
    policy = EnvironmentPolicy(python=sys.executable)
    agent = Agent(transport, policy, Layout(str(tmp_path), str(tmp_path)), str(tmp_path))
    for offset in await agent.clocks():
        assert abs(offset.offset_s) <= offset.error_s


async def test_files_work(transport, tmp_path):
    await transport.write_atomic(str(tmp_path / "it's a file"), b"content")
    assert await transport.read(str(tmp_path / "it's a file")) == b"content"


async def test_a_slow_shell_is_waited_for(tmp_path):
    files = {".bashrc": "sleep 3\n"}
    with server_with_shell(tmp_path / "slow", "127.0.0.8", "bash", files) as slow:
        transport = SshTransport(slow.target())
        assert (await transport.run(["echo", "hello"])).stdout == b"hello\n"
        await transport.close()


async def test_a_shell_that_runs_nothing_is_named(tmp_path):
    with server_with_shell(tmp_path / "no", "127.0.0.8", "nologin", {}) as no:
        transport = SshTransport(no.target())
        with pytest.raises(RemoteFailure) as caught:
            await transport.home()
        await transport.close()
    assert "login shell did not run" in str(caught.value)
    assert "currently not available" in str(caught.value)


async def test_files_need_no_sftp_and_a_login_file_may_print(tmp_path):
    files = {".bashrc": "echo Welcome to the lab, please mind the noise\n"}
    with server_with_shell(tmp_path / "n", "127.0.0.8", "bash", files, "MaxStartups 100\n") as node:
        transport = SshTransport(node.target())
        await transport.write_atomic(str(tmp_path / "file"), b"content")
        assert await transport.read(str(tmp_path / "file")) == b"content"
        await transport.close()


async def test_files_of_a_node_without_a_python_name_it(tmp_path):
    with server_with_shell(tmp_path / "n", "127.0.0.8", "bash", {}) as node:
        transport = SshTransport(dataclasses.replace(node.target(), python="python-not-there"))
        with pytest.raises(PythonUnusable, match=r"python-not-there does not run.*not found"):
            await transport.exists("/tmp")
        await transport.close()


def test_a_nul_character_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        quote("a\0b")
