"""What a node says of itself before a night, and the ring that measures the network."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from node_driver import AGENT, PYTHON, one_node, verb, wait_until
from nodeside import control_measurements, system


def test_a_node_is_described(tmp_path):
    code, found = verb("preflight", "--root", tmp_path / "root", "--lock-dir", tmp_path / "locks")
    assert code == 0, found
    assert found["schema"] == "nightbench.preflight/1"
    assert found["writable"]
    assert found["problem"] is None
    assert abs(found["clock"]["wall_s"] - time.time()) < 120
    assert found["disk"]["free_bytes"] <= found["disk"]["total_bytes"]
    assert found["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert found["memory"]["available_bytes"] <= found["memory"]["total_bytes"]
    assert found["limits"]["nofile"] is None or found["limits"]["nofile"] > 0
    assert "lo" not in [link["name"] for link in found["links"]]
    assert found["lock_holders"] == []
    assert found["controls"] == []
    assert 0 <= found["foreign"]["cpu_share"] <= 1
    assert found["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_controls_are_rates_of_one_core(tmp_path):
    began = time.monotonic()
    core = min(os.sched_getaffinity(0))
    words = ("--root", tmp_path / "root", "--cpus", core, "--controls", "cpu")
    found = verb("preflight", *words)[1]["controls"]
    print(f"preflight with controls took {time.monotonic() - began:.1f} s")
    assert [(c["metric"], c["unit"], c["device"]) for c in found] == [
        ("matrix_product", "GFLOP/s", "cpu"),
        ("memory_copy", "GB/s", "cpu"),
    ]
    for control in found:
        assert control["backend"].startswith("python-3.")
        assert len(control["values"]) >= 5
        assert all(value > 0 for value in control["values"])


def test_a_core_that_is_not_there_is_no_reason_to_say_nothing(tmp_path):
    code, found = verb("preflight", "--root", tmp_path / "root", "--cpus", "0,4095")
    assert code == 0
    assert found["cpu"]["cores"] >= 1


def test_a_root_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").touch()
    code, found = verb("preflight", "--root", tmp_path / "file" / "root")
    assert code == 0
    assert not found["writable"]
    assert "cannot write" in found["problem"]


def test_orphans_are_shown_and_left_alone(tmp_path, drive):
    node = drive(one_node(trainers=1), params={"hang_at_step": 2})
    node.go()
    wait_until(lambda: node.phase(1, "trainer-0") == "warmup")
    words = ("--root", tmp_path / "root", "--lock-dir", tmp_path / "locks")
    found = verb("preflight", *words, env=node.env)[1]
    assert [o for o in found["orphans"] if o["job"] == node.job_id] == [], "its agent lives"
    assert [h["job_id"] for h in found["lock_holders"]] == [node.job_id]
    assert node.marked(), "looking ends nothing"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Disk quotas for user anna (uid 1001): none\n", None),
        (
            "Disk quotas for user anna (uid 1001): \n"
            "     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace\n"
            "      /dev/sdb1  204800*  102400  307200       0      10       0       0       0\n"
            "  nas:/export/home  1000  500000  600000       0      10       0       0       0\n",
            {"used_bytes": 204800 * 1024, "limit_bytes": 102400 * 1024},
        ),
        ("  /dev/sdb1  204800  0  0  0  10  0  0  0\n", None),
    ],
)
def test_quota(text, expected):
    assert system.parse_quota(text) == expected


def test_who_ends_a_login_s_processes(tmp_path, monkeypatch):
    tool = tmp_path / "loginctl"
    tool.write_text('#!/bin/sh\ncat "$0.says"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("USER", "anna")
    said = tmp_path / "loginctl.says"
    for text, expected in (
        ("KillUserProcesses=no\nKillExcludeUsers=root\n", False),
        ("KillUserProcesses=yes\nKillOnlyUsers=\nKillExcludeUsers=root\n", True),
        ("KillUserProcesses=yes\nKillOnlyUsers=\nKillExcludeUsers=root anna\n", False),
        ("KillUserProcesses=yes\nKillOnlyUsers=bert\nKillExcludeUsers=root\n", False),
        ("nothing of the kind\n", None),
    ):
        said.write_text(text)
        assert system.session()["kill_user_processes"] is expected


def test_a_daemon_that_keeps_the_clock_is_asked_where_the_kernel_does_not_know(
    tmp_path, monkeypatch
):
    tool = tmp_path / "chronyc"
    tool.write_text("#!/bin/sh\necho 'Leap status     : Normal'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = system.clock()
    assert found["synchronised"] is True
    assert found["source"] in ("kernel", "chrony")
    tool.write_text("#!/bin/sh\necho 'Leap status     : Not synchronised'\n")
    found = system.clock()
    assert found["source"] == "kernel" or found["synchronised"] is False


def test_controls_of_devices_are_what_a_lines_own_script_says(tmp_path):
    line = tmp_path / "code/frameworks/thing"
    line.mkdir(parents=True)
    (line / "framework.json").write_text('{"controls": {"gpu": "speed.py"}}')
    script = line / "speed.py"
    script.write_text("import sys; print('[{\"values\": %s}]' % ([1.5] * int(sys.argv[1])))")
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to(sys.executable)

    def measured(kind="gpu", **prefixes):
        return control_measurements.of_devices(
            kind, str(tmp_path / "code"), str(tmp_path / "root"), prefixes
        )

    assert measured(thing=str(prefix)) == ([{"values": [1.5] * control_measurements.VALUES}], None)
    assert measured() == measured("tpu", thing=str(prefix)) == ([], None)
    environment = tmp_path / "root/envs/thing-cu126-1"
    environment.mkdir(parents=True)
    (environment / ".ok.json").write_text('{"line": "thing", "variant": "cu126"}')
    assert f"cannot run {environment}/bin/python" in measured()[1]
    script.write_text("import torch_that_is_not_here")
    assert "ModuleNotFoundError" in measured(thing=str(prefix))[1]
    # What was printed before it failed, or hung, counts.
    script.write_text("print('[1]'); print('[1, 2]\\n[3', flush=True); import not_here")
    found, why = measured(thing=str(prefix))
    assert (found, "ModuleNotFoundError" in why) == ([1, 2], True)
    script.write_text("echo '[1]'; exec sleep 600")
    found, why = control_measurements.run_script("/bin/sh", str(script), 5.0)
    assert (found, "took longer than 5 s" in why) == ([1], True)


# --- the ring ----------------------------------------------------------------------------


def ring(count: int, *words: str) -> list[subprocess.Popen[str]]:
    common = [PYTHON, str(AGENT), "allreduce", "--world", str(count)]
    common += ["--listen-range", "23500-23599", *words]
    return [
        subprocess.Popen(
            [*common, "--rank", str(rank), "--bind", f"127.0.0.{rank + 2}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]


def tell(processes: list[Any], ports: list[int]) -> None:
    line = json.dumps([f"127.0.0.{rank + 2}:{port}" for rank, port in enumerate(ports)])
    for process in processes:
        process.stdin.write(line + "\n")
        process.stdin.flush()


@pytest.mark.parametrize("count", [2, 3])
def test_all_ranks_reduce_and_none_lets_a_stranger_in(count):
    processes = ring(count, "--bytes", "100001", "--rounds", "3")
    ports = [json.loads(process.stdout.readline())["port"] for process in processes]
    assert all(23500 <= port <= 23599 for port in ports)
    with socket.create_connection(("127.0.0.2", ports[0])) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: somebody-who-scans-ports\r\n\r\n")
        tell(processes, ports)
        for process in processes:
            out = process.communicate(timeout=300)[0]
            found = json.loads(out)
            assert process.returncode == 0, found
            assert len(found["seconds"]) == 3
            assert found["bytes"] >= 100001
            assert found["ranks"] == count


def test_without_an_address_both_families_are_listened_on():
    argv = [PYTHON, str(AGENT), "allreduce", "--world", "2", "--listen-range", "23700-23750"]
    argv += ["--bytes", "1000"]
    processes = [
        subprocess.Popen(
            [*argv, "--rank", str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    ports = [json.loads(process.stdout.readline())["port"] for process in processes]
    host = "[::1]" if Path("/proc/net/if_inet6").exists() else "127.0.0.1"
    line = json.dumps([f"127.0.0.1:{ports[0]}", f"{host}:{ports[1]}"]) + "\n"
    for process in processes:
        process.stdin.write(line)
        process.stdin.flush()
    said = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    assert [len(found.get("seconds", ())) for found in said] == [5, 5], said


def test_a_rank_that_dies_ends_the_ring_with_a_message():
    processes = ring(2, "--rounds", "100000")
    ports = [json.loads(process.stdout.readline())["port"] for process in processes]
    tell(processes, ports)
    time.sleep(1.0)
    processes[1].kill()
    processes[1].communicate()
    out = processes[0].communicate(timeout=300)[0]
    assert processes[0].returncode == 1
    assert json.loads(out)["error"].startswith("rank 0: ")


@pytest.mark.parametrize(
    ("words", "line", "expected"),
    [
        (("--rank", "0", "--world", "1"), "", "at least two ranks are needed"),
        (("--rank", "0", "--world", "2"), "no list\n", "stdin has no list of addresses"),
        (("--rank", "0", "--world", "2"), '["127.0.0.1:1"]\n', "1 addresses on stdin for 2 ranks"),
    ],
)
def test_what_makes_no_ring_is_said(words, line, expected):
    argv = [PYTHON, str(AGENT), "allreduce", *words, "--listen-range", "23600-23650"]
    done = subprocess.run(argv, input=line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert expected in json.loads(done.stdout.splitlines()[-1])["error"]


def test_between_devices_a_lines_script_takes_the_ranks_place(tmp_path):
    words = ("--rank", "1", "--world", "2", "--listen-range", "20000-20009", "--controls", "gpu")
    argv = [PYTHON, str(AGENT), "allreduce", *words, "--root", str(tmp_path / "root")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert "has a script of control measurements for gpu" in json.loads(done.stdout)["error"]
    python = tmp_path / "prefix/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\nread -r line; printf "%s\\n" "$@" "$line"\n')
    python.chmod(0o755)
    argv += ["--prefix", f"pytorch={tmp_path / 'prefix'}", "--bytes", "8", "--rounds", "3"]
    done = subprocess.run(argv, input="peers\n", capture_output=True, text=True, timeout=300)
    script, *rest = done.stdout.splitlines()
    assert script.endswith("frameworks/pytorch/controls.py")
    assert rest == ["3", *words[:6], "--copy-bytes", "8", "peers"]


def test_the_folder_of_jobs_is_examined_where_it_lies_apart(tmp_path):
    words = ["preflight", "--root", tmp_path / "root"]
    assert verb(*words)[1]["job_root"] is None
    apart = verb(*words, "--job-root", tmp_path / "jobs")[1]["job_root"]
    assert (apart["path"], apart["problem"]) == (str(tmp_path / "jobs"), None)
    assert apart["disk"]["free_bytes"] > 0
    (tmp_path / "file").touch()
    broken = verb(*words, "--job-root", tmp_path / "file" / "jobs")[1]["job_root"]
    assert "cannot write" in broken["problem"]
