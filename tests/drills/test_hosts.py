"""The hosts themselves: a drill proves nothing on a host that is none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.drills.hosts import Host, Lab, tool

REPO = Path(__file__).resolve().parents[2]


def ssh(lab: Lab, host: Host, command: str, user: str = "bench", timeout_s: float = 10) -> str:
    words = [tool("ssh"), "-i", str(lab.key), "-o", f"UserKnownHostsFile={lab.known_hosts}"]
    words += ["-o", "ConnectTimeout=2", "-o", "BatchMode=yes", f"{user}@{host.address}", command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode == 255:
        raise ConnectionError(done.stderr)
    return done.stdout.strip()


def test_a_host_is_a_machine_of_its_own(lab: Lab) -> None:
    n1, n2 = lab.host("n1"), lab.host("n2")
    assert ssh(lab, n1, "hostname; whoami; echo $HOME").split() == ["n1", "bench", "/home/bench"]
    assert ssh(lab, n2, "ps -p 1 -o args=").endswith("machine.py")
    # Its own process table, disks and clocks.
    assert int(ssh(lab, n1, "ls -d /proc/[0-9]* | wc -l")) < 12
    assert "eth0" in ssh(lab, n1, "ls /sys/class/net")
    n1.write_home("here", "yes")
    assert ssh(lab, n1, "cat ~/here") == "yes"
    assert ssh(lab, n2, "test -e ~/here || echo no") == "no"
    boots = [ssh(lab, host, "cat /proc/sys/kernel/random/boot_id") for host in (n1, n2)]
    assert boots[0] != boots[1]
    python = "/usr/bin/python3 -c 'import time; print(time.monotonic(), time.time())'"
    clocks = [[float(x) for x in ssh(lab, host, python).split()] for host in (n1, n2)]
    assert clocks[0][0] - time.monotonic() == pytest.approx(11_000, abs=5)
    assert clocks[1][0] - time.monotonic() == pytest.approx(12_000, abs=5)
    assert clocks[0][1] - time.time() == pytest.approx(0, abs=5)
    assert clocks[1][1] - time.time() == pytest.approx(0, abs=5)
    assert n1.path("/home/bench/here").read_text() == "yes"
    # Work on one host is not seen on the other.
    ssh(lab, n1, "timeout 1 sh -c 'while :; do :; done'")
    time.sleep(0.3)
    busy = [int(ssh(lab, host, "head -1 /proc/stat").split()[1]) for host in (n1, n2)]
    assert busy[0] > busy[1] + 20


def test_links_power_and_bandwidth(lab: Lab) -> None:
    n1, n2 = lab.host("n1"), lab.host("n2")
    n1.write_home("kept", "disk")
    for cut, mend in ((n1.unplug, n1.plug), (n1.swallow, n1.forward)):
        cut()
        with pytest.raises(ConnectionError):
            ssh(lab, n1, "true")
        assert ssh(lab, n2, "echo well") == "well"
        mend()
        n1.wait_for_ssh()
        assert ssh(lab, n1, "echo back") == "back"
    before = ssh(
        lab, n1, "cat /proc/sys/kernel/random/boot_id; touch /tmp/gone; sleep 60 >/dev/null 2>&1 &"
    )
    n1.crash()
    assert not n1.running
    with pytest.raises(ConnectionError):
        ssh(lab, n1, "true")
    n1.boot()
    after = ssh(lab, n1, "cat /proc/sys/kernel/random/boot_id; cat ~/kept; ls /tmp; pgrep sleep")
    assert after.split()[0] != before
    assert after.split()[1:] == ["disk"]
    assert float(ssh(lab, n1, "cat /proc/uptime").split()[0]) < 120
    n1.limit("8mbit")
    began = time.monotonic()
    ssh(lab, n1, "head -c 4000000 /dev/zero")
    assert time.monotonic() - began > 2
    n1.limit(None)
    n1.kill_sshd()
    with pytest.raises(ConnectionError, match="refused"):
        ssh(lab, n1, "true")
    n1.start_sshd()
    assert ssh(lab, n1, "echo served") == "served"


def test_the_bandwidth_figure_removes_what_it_made_when_it_is_ended(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.performance", "bandwidth"]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, cwd=REPO, env=env) as figure:
        try:
            while not list(tmp_path.glob("*/home/connections.json")):
                assert figure.poll() is None
                time.sleep(0.1)
        finally:
            figure.terminate()
        assert figure.wait(60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
