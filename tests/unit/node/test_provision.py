"""Environments: real uv, real interpreters, wheels made here, no network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from node_driver import CODE, PYTHON
from nodeside import interpreters, pipconfig, provision, uvtool
from tests.wheels import make_wheel

SERIES = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.fixture(scope="session")
def uv() -> str:
    candidates = [
        str(Path(sys.prefix) / "bin" / "uv"),
        shutil.which("uv"),
    ]
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return candidate
    pytest.skip("needs uv: `make setup` brings it")


class Site:
    """Shipped code with one small framework line, a folder of wheels, and a node's root."""

    def __init__(self, folder: Path, uv: str, python: str = SERIES) -> None:
        self.root = folder / "root"
        self.wheels = folder / "wheels"
        self.code = folder / "code"
        self.uv = uv
        self.folder = folder
        self.locks = folder / "locks"
        shutil.copytree(CODE / "nodeside", self.code / "nodeside")
        shutil.copy(CODE / "agent.py", self.code)
        line = self.code / "frameworks" / "tiny"
        line.mkdir(parents=True)
        self.info: dict[str, Any] = {
            "line": "tiny",
            "version": "1.0",
            "package": "tiny_main",
            "variants": {"cpu": {"device": "cpu", "pythons": [python]}},
            "size_bytes": 1000,
        }
        self.write_info()
        lock = ""
        for name in ("tiny_dep", "tiny_main"):
            wheel = make_wheel(self.wheels, name, "1.0")
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            lock += f"{name.replace('_', '-')}==1.0 \\\n    --hash=sha256:{digest}\n    # via x\n"
        self.lock = line / "requirements-cpu.lock"
        self.lock.write_text(lock)

    def write_info(self, **changes: Any) -> None:
        self.info.update(changes)
        path = self.code / "frameworks" / "tiny" / "framework.json"
        path.write_text(json.dumps(self.info))

    def provision(self, *words: str | Path, **env: str) -> tuple[int, dict[str, Any]]:
        call = [PYTHON, self.code / "agent.py", "provision", "--root", self.root]
        call += ["--line", "tiny", "--uv", self.uv, "--lock-dir", self.locks, *words]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
        clean.update({"PIP_CONFIG_FILE": os.devnull, "UV_HTTP_RETRIES": "0", **env})
        done = subprocess.run(
            list(map(str, call)), env=clean, capture_output=True, text=True, timeout=300
        )
        return done.returncode, json.loads(done.stdout)

    def versions(self, python: str) -> list[str]:
        script = "import tiny_main, tiny_dep; print(tiny_main.VERSION, tiny_dep.VERSION)"
        done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
        return done.stdout.split()


@pytest.fixture
def site(tmp_path: Path, uv: str) -> Site:
    return Site(tmp_path, uv)


def test_built_once_from_a_wheelhouse(site):
    code, first = site.provision("--wheelhouse", site.wheels)
    assert code == 0, first
    assert first["built"]
    assert site.versions(first["python"]) == ["1.0", "1.0"]
    code, again = site.provision("--wheelhouse", site.wheels)
    assert again["python"] == first["python"]
    assert again["built"] is False
    assert [p.name for p in (site.root / "envs").iterdir()] == [Path(first["env"]).name]
    assert "uv venv" in next((site.root / "logs").iterdir()).read_text()


def test_two_at_once_build_once(site):
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(site.provision, "--wheelhouse", site.wheels) for _ in range(2)]
        answers = [call.result()[1] for call in calls]
    assert sorted(answer["built"] for answer in answers) == [False, True]
    assert answers[0]["python"] == answers[1]["python"]


def test_find_links_of_the_cluster_and_of_pip(site):
    code, answer = site.provision("--find-links", site.wheels, UV_NO_INDEX="1")
    assert code == 0, answer
    assert answer["built"]
    shutil.rmtree(site.root)
    code, answer = site.provision(PIP_FIND_LINKS=str(site.wheels), PIP_NO_INDEX="1")
    assert answer.get("built"), answer


def test_a_variant_comes_from_its_own_index(site, tmp_path):
    index = tmp_path / "index"
    for wheel in site.wheels.iterdir():
        page = index / wheel.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
    (tmp_path / "empty").mkdir()
    default = ("--index-url", (tmp_path / "empty").as_uri())

    def provision(**described: Any) -> dict[str, Any]:
        shutil.rmtree(site.root, ignore_errors=True)
        site.write_info(variants={"cpu": {"device": "cpu", "pythons": [SERIES], **described}})
        code, answer = site.provision(*default)
        assert code == 0, answer
        return answer

    assert "could not be installed" in provision()["unavailable"]
    assert provision(index={"url": index.as_uri()})["built"]
    options = ["--find-links", str(site.wheels)]
    assert provision(index={"url": "https://none.invalid", "options": options})["built"]
    nowhere = {"url": (tmp_path / "empty").as_uri()}
    assert f"cpu build of tiny_main comes from {nowhere['url']}" in provision(index=nowhere)["hint"]


def test_without_a_network_the_cache_is_enough(site, tmp_path):
    index = tmp_path / "index"
    for wheel in site.wheels.iterdir():
        page = index / wheel.name.split("-")[0].replace("_", "-") / "index.html"
        page.parent.mkdir(parents=True)
        page.write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
        shutil.copy(wheel, page.parent)
    handler = partial(SimpleHTTPRequestHandler, directory=index)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    words = ("--index-url", f"http://127.0.0.1:{server.server_address[1]}")
    cache = {"UV_CACHE_DIR": str(tmp_path / "cache")}
    assert site.provision(*words, **cache)[1].get("built")
    server.shutdown()
    server.server_close()
    shutil.rmtree(site.root)
    assert site.provision(*words, **cache)[1].get("built")
    shutil.rmtree(site.root)
    refused = site.provision(*words, UV_CACHE_DIR=str(tmp_path / "other"))[1]
    assert "could not be installed" in refused["unavailable"]


def test_changed_lock_is_another_environment(site):
    first = site.provision("--wheelhouse", site.wheels)[1]
    site.lock.write_text("# another\n" + site.lock.read_text())
    second = site.provision("--wheelhouse", site.wheels)[1]
    assert second["built"]
    assert second["env"] != first["env"]
    assert Path(first["python"]).exists()


def test_wheel_takes_the_place_of_the_main_package(site):
    wheel = make_wheel(site.folder / "mine", "tiny_main", "1.1.dev0")
    code, answer = site.provision("--wheelhouse", site.wheels, "--wheel", wheel)
    assert code == 0, answer
    assert site.versions(answer["python"]) == ["1.1.dev0", "1.0"]
    # The same name with another content is another build.
    make_wheel(site.folder / "mine", "tiny_main", "1.1.dev0", "VERSION = 'changed'\n")
    other = site.provision("--wheelhouse", site.wheels, "--wheel", wheel)[1]
    assert other["built"]
    assert site.versions(other["python"]) == ["changed", "1.0"]


def test_other_version_from_the_index(site):
    make_wheel(site.wheels, "tiny_main", "2.0")
    code, answer = site.provision("--wheelhouse", site.wheels, "--version", "2.0")
    assert code == 0, answer
    assert site.versions(answer["python"]) == ["2.0", "1.0"]
    plain = site.provision("--wheelhouse", site.wheels, "--version", "1.0")[1]
    assert site.versions(plain["python"]) == ["1.0", "1.0"]
    assert plain["env"] == site.provision("--wheelhouse", site.wheels)[1]["env"]


def test_wrong_hash_is_refused(site):
    make_wheel(site.wheels, "tiny_main", "1.0", "VERSION = 'evil'\n")
    code, answer = site.provision("--wheelhouse", site.wheels)
    assert code == 0
    assert "tiny" in answer["unavailable"]
    assert "ash" in Path(answer["log"]).read_text()
    assert list((site.root / "envs").iterdir()) == [], "nothing half-built is left"


def test_missing_packages_are_unavailable_with_a_hint(site, tmp_path):
    (tmp_path / "empty").mkdir()
    code, answer = site.provision("--wheelhouse", tmp_path / "empty")
    assert code == 0
    assert "could not be installed" in answer["unavailable"]
    assert "environments.wheelhouse" in answer["hint"]


def test_missing_interpreter_is_unavailable_with_a_hint(site):
    site.write_info(variants={"cpu": {"device": "cpu", "pythons": ["3.99"]}})
    code, answer = site.provision(UV_OFFLINE="1")
    assert code == 0
    assert answer["unavailable"].startswith("there is no Python 3.99 on this node")
    assert "python3.99 is on PATH" in answer["hint"]


def test_too_little_room_is_said_before(site):
    site.write_info(size_bytes=10**18)
    code, answer = site.provision("--wheelhouse", site.wheels)
    assert code == 1
    assert "disk full: framework tiny needs" in answer["error"]


def test_unknown_line_and_variant(site):
    assert "no framework 'none'" in site.provision("--line", "none")[1]["unavailable"]
    code, answer = site.provision("--variant", "cu126")
    assert code == 0, "the author's mistake is no failure of the node"
    assert "no variant 'cu126'" in answer["unavailable"]
    assert answer["hint"].endswith("variants of this line: cpu")


def test_a_lock_that_is_missing_makes_the_line_unavailable(site):
    (site.code / "frameworks" / "tiny" / "requirements-cpu.lock").unlink()
    code, answer = site.provision()
    assert code == 0
    assert "requirements-cpu.lock is not there" in answer["unavailable"]


def test_shims_that_do_not_answer_are_passed_over(tmp_path, monkeypatch):
    shim = tmp_path / "shims" / f"python{SERIES}"
    shim.parent.mkdir()
    shim.write_text("#!/bin/sh\necho 'the version is not selected' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:/usr/bin:/bin")
    found = interpreters.find(SERIES)
    assert found is not None
    assert found != str(shim)
    liar = tmp_path / "liar" / "python3.98"
    liar.parent.mkdir()
    liar.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(liar.parent))
    assert interpreters.find("3.98") is None


def test_interpreters_that_uv_downloaded_for_another_machine(tmp_path, monkeypatch):
    """Nodes of two CPU architectures may share the root: the one that runs here is found."""
    monkeypatch.setenv("PATH", "/nowhere")
    for machine, runs in (("aarch64", False), ("x86_64", True)):
        name = f"cpython-3.98.1-linux-{machine}-gnu"
        python = tmp_path / "tools" / "python" / name / "bin" / "python3.98"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\necho 3.98; echo {python}\n" if runs else "\x7fELF\0")
        python.chmod(0o755)
        found = interpreters.find("3.98", root=str(tmp_path))
        assert found == (str(python) if runs else None)


def test_pip_configuration_in_uvs_words(tmp_path):
    config = tmp_path / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[global]\nindex-url = https://a.example/simple\n"
        "extra-index-url = https://b.example/simple\n    https://c.example/simple\n"
        "[install]\nfind-links = /one /two\n"
    )
    made = pipconfig.uv_environment({"PIP_INDEX_URL": "https://env.example/simple"}, str(tmp_path))
    assert made["UV_DEFAULT_INDEX"] == "https://env.example/simple", "PIP_* wins over files"
    assert made["UV_INDEX"] == "https://b.example/simple https://c.example/simple"
    assert made["UV_FIND_LINKS"] == "/one,/two"
    kept = pipconfig.uv_environment({"UV_FIND_LINKS": "/mine"}, str(tmp_path))
    assert "UV_FIND_LINKS" not in kept, "what uv was told stays"


def test_lock_without_a_package():
    lock = (
        "a==1 \\\n    --hash=sha256:1\n    # via b\nTorch==2.1+cpu \\\n    --hash=sha256:2\nz==3\n"
    )
    left, pinned = uvtool.without(lock, "torch")
    assert left == "a==1 \\\n    --hash=sha256:1\n    # via b\nz==3\n"
    assert pinned == ["2.1+cpu"]
    assert uvtool.like_build("2.0", pinned) == "2.0+cpu"
    assert uvtool.like_build("2.0+cu1", pinned) == "2.0+cu1"
    assert uvtool.like_build("2.0", []) == "2.0"


def test_of_a_chain_of_causes_the_first_and_the_root_are_told() -> None:
    said = "error: Request failed\n  cause: Failed to fetch: https://i/torch/\n  cause: dns error\n"
    said += "  cause: Name or service not known\n"
    assert provision.shortly(said) == (
        "Failed to fetch: https://i/torch/: Name or service not known"
    )
    assert provision.shortly("no such wheel\n") == "no such wheel"


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        ("NVIDIA H100, 580.65.06, 9.0", None),
        (
            "NVIDIA H100, 570.86.10, 9.0",
            "found driver 570.86.10 of NVIDIA H100; expected 580.65.06 or newer (CUDA 13.0)",
        ),
        (
            "Tesla V100, 580.65.06, 7.0",
            "found compute capability 7.0 of Tesla V100; expected one of 8.0, 9.0",
        ),
        (None, "found no nvidia-smi; expected NVIDIA GPUs and their driver, 580.65.06 or newer"),
    ],
)
def test_gpus_that_a_variant_cannot_run_on_are_refused_before_it_is_built(site, gpu, why):
    needs = {"cuda": "13.0", "driver": "580.65.06", "compute_capabilities": ["8.0", "9.0"]}
    site.write_info(variants={"cpu": {"device": "gpu", "pythons": [SERIES], **needs}})
    tools = site.folder / "tools"
    tools.mkdir()
    if gpu:
        (tools / "nvidia-smi").write_text(f"#!/bin/sh\necho '{gpu}'\n")
        (tools / "nvidia-smi").chmod(0o755)
    path = f"{tools}:/usr/bin:/bin"
    code, answer = site.provision("--wheelhouse", site.wheels, PATH=path)
    assert code == 0, answer
    if why is None:
        assert answer["built"]
    else:
        assert answer["unavailable"] == f"tiny cpu cannot run on this node: {why}"
        assert not (site.root / "envs").exists()


# --- which Python ---------------------------------------------------------------------------


def other_python(folder: Path, series: str, path: str = sys.executable) -> str:
    """Put an interpreter that says to be of another series into a folder; return a PATH with it."""
    folder.mkdir(exist_ok=True)
    file = folder / f"python{series}"
    file.write_text(f"#!/bin/sh\nprintf '%s\\n' {series} {path}\n")
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_the_newest_python_that_a_node_has(site, tmp_path):
    site.write_info(variants={"cpu": {"device": "cpu", "pythons": [SERIES, "3.98", "3.99"]}})
    path = other_python(tmp_path / "bin", "3.98")
    offline = {"UV_OFFLINE": "1"}
    assert site.provision("--ask")[1] == {"pythons": [SERIES]}
    assert site.provision("--ask", PATH=path)[1] == {"pythons": ["3.98", SERIES]}
    answer = site.provision("--wheelhouse", site.wheels, **offline)[1]
    assert (answer["series"], answer["pythons"]) == (SERIES, [SERIES])
    newer = site.provision("--wheelhouse", site.wheels, PATH=path, **offline)[1]
    assert (newer["series"], newer["built"]) == ("3.98", True)
    assert "-py3.98-" in newer["env"]
    older = site.provision("--series", SERIES, "--wheelhouse", site.wheels, PATH=path, **offline)[1]
    assert older["env"] == answer["env"]


def test_a_python_without_packages_is_passed_over(site, tmp_path):
    site.write_info(variants={"cpu": {"device": "cpu", "pythons": [SERIES, "3.98"]}})
    path = other_python(tmp_path / "bin", "3.98", "/nowhere/python3.98")
    answer = site.provision("--wheelhouse", site.wheels, PATH=path)[1]
    assert answer["series"] == SERIES
    assert site.versions(answer["python"]) == ["1.0", "1.0"]
    alone = site.provision("--series", "3.98", "--wheelhouse", site.wheels, PATH=path)[1]
    assert "could not be installed" in alone["unavailable"]


def test_a_lock_may_have_an_older_version_for_older_pythons(site, tmp_path):
    site.write_info(version="2.0")
    newer = make_wheel(site.wheels, "tiny_main", "2.0")
    digest = hashlib.sha256(newer.read_bytes()).hexdigest()
    text = site.lock.read_text().replace("==1.0 \\", "==1.0 ; python_version < '3.90' \\", 2)
    site.lock.write_text(
        f"{text}tiny-main==2.0 ; python_version >= '3.90' --hash=sha256:{digest}\n"
    )
    _, locked = site.provision("--wheelhouse", site.wheels)
    assert site.versions(locked["python"]) == ["1.0", "1.0"]
    made = json.loads((Path(locked["env"]) / ".ok.json").read_text())
    assert made["version"] == "1.0", "the one that was installed, not the newest of the lock"
    _, asked = site.provision("--version", "2.0", "--wheelhouse", site.wheels)
    assert site.versions(asked["python"]) == ["2.0", "1.0"]


def test_no_python_of_several(site):
    site.write_info(variants={"cpu": {"device": "cpu", "pythons": ["3.98", "3.99"]}})
    answer = site.provision(UV_OFFLINE="1")[1]
    assert answer["unavailable"].startswith("there is no Python 3.98 or 3.99 on this node")
    assert Path(answer["log"]).read_text().count("python install") == 1, "one attempt says enough"


def test_a_wheel_decides_which_python(site, tmp_path):
    site.write_info(variants={"cpu": {"device": "cpu", "pythons": [SERIES, "3.98"]}})
    path = other_python(tmp_path / "bin", "3.98")
    tag = f"cp{SERIES.replace('.', '')}"
    made = make_wheel(tmp_path / "own", "tiny_main", "2.0")
    own = made.rename(made.with_name(made.name.replace("py3-none", f"{tag}-{tag}")))
    words = "--wheel", own, "--wheelhouse", site.wheels, "--ask"
    assert site.provision(*words, PATH=path)[1] == {"pythons": [SERIES]}
    old = own.rename(own.with_name(own.name.replace(f"{tag}-{tag}", "cp35-cp35m")))
    refused = site.provision("--wheel", old, PATH=path)[1]
    assert refused["unavailable"].endswith(
        f"fits no Python that tiny cpu supports ({SERIES}, 3.98)"
    )
