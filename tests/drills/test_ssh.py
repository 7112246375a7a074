"""SSH as it is on other people's machines."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from tests.drills.gangs import (
    check_accounts,
    eventually,
    in_phase,
    left,
    make_job,
    make_store,
    measure,
)
from tests.drills.hosts import Lab, marked

from nightbench.core.errors import UserError
from nightbench.core.model import CaseStatus
from nightbench.gang import GangEvent, HostKeyRejected, LoginRefused, Shipment, cancel

SHELLS = {"dash": "/usr/bin/dash", "zsh": "/usr/bin/zsh", "fish": "/usr/bin/fish"}
NOISE = {
    "bash": (".bashrc", "echo 'Welcome to {}!'; echo '{{\"schema\": \"no\"}}'; echo oops >&2\n"),
    "zsh": (".zshenv", "print 'Welcome to {}!'; print -u2 oops\n"),
    "fish": (".config/fish/config.fish", "echo 'Welcome to {}!'; echo oops >&2\n"),
}


async def one_case(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """A case goes well."""
    job = make_job(lab, shipment, repeats=2, daemon=True)
    store = make_store(tmp_path)
    outcome = await measure(lab, shipment, job, store)
    check_accounts(lab, job, store, outcome)
    assert outcome.status is CaseStatus.OK, outcome.why
    assert [r.status for r in outcome.repeats] == ["ok", "ok"]


@pytest.mark.parametrize("shell", SHELLS)
async def test_other_login_shells(lab: Lab, shipment: Shipment, tmp_path: Path, shell: str) -> None:
    lab.host("n1", shell=SHELLS[shell])
    lab.host("n2", shell=SHELLS[shell])
    await one_case(lab, shipment, tmp_path)


@pytest.mark.parametrize("sftp", ["internal", "external"])
@pytest.mark.parametrize("shell", NOISE)
async def test_shells_that_talk(
    lab: Lab, shipment: Shipment, tmp_path: Path, shell: str, sftp: str
) -> None:
    """Output of start files, a banner and a message of the day: no effect, or a clear error.

    Where sshd leaves SFTP to a program, the login shell starts it, and what its start file prints
    comes before the protocol: nobody's SFTP works there.
    """
    name, text = NOISE[shell]
    for node in ("n1", "n2"):
        host = lab.host(
            node,
            shell=SHELLS.get(shell, "/bin/bash"),
            sftp=sftp,
            sshd={"Banner": "/run/machine/banner", "PrintMotd": "yes"},
        )
        (host.folder / "machine/banner").write_text("***\nAuthorised use only\n***\n" * 40)
        host.write_home(name, text.format(node))
    if sftp == "internal":
        await one_case(lab, shipment, tmp_path)
        return
    with pytest.raises(UserError, match="SFTP") as caught:
        await one_case(lab, shipment, tmp_path)
    assert "n1" in str(caught.value)
    assert "print something" in str(caught.value)


async def test_a_shell_that_takes_its_time(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Three seconds for every command: modules, licences and conda as on real clusters."""
    lab.host("n1")
    lab.host("n2").write_home(".bashrc", "sleep 3\n")
    await one_case(lab, shipment, tmp_path)


async def test_a_server_that_throttles_logins(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """MaxStartups 1:100:2 drops every second login of several at once."""
    for name in ("n1", "n2"):
        lab.host(name, sshd={"MaxStartups": "1:100:2"})
    jobs = [make_job(lab, shipment, repeats=1, steps=5) for _ in range(4)]
    stores = [make_store(tmp_path, f"run-{k}") for k in range(4)]
    outcomes = await asyncio.gather(
        *(measure(lab, shipment, job, store) for job, store in zip(jobs, stores, strict=True))
    )
    for job, store, outcome in zip(jobs, stores, outcomes, strict=True):
        assert outcome.status is CaseStatus.OK, outcome.why
        check_accounts(lab, job, store, outcome)


@pytest.mark.parametrize("sessions", [4, 1])
async def test_a_server_that_allows_few_sessions(
    lab: Lab, shipment: Shipment, tmp_path: Path, sessions: int
) -> None:
    """MaxSessions below OpenSSH's ten: further connections are opened."""
    for name in ("n1", "n2"):
        lab.host(name, sshd={"MaxSessions": sessions})
    await one_case(lab, shipment, tmp_path)


async def test_a_changed_host_key(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Nothing is sent to a host that may be another; nothing runs on the others either."""
    lab.host("n1")
    lab.host("n2").change_host_key()
    job = make_job(lab, shipment, repeats=1)
    store = make_store(tmp_path)
    with pytest.raises(HostKeyRejected, match=r"n2.*CHANGED"):
        await measure(lab, shipment, job, store)
    assert not (lab.hosts["n1"].home / "bench/.nightbench-node").exists()
    assert marked(job.run_id) == []


async def test_the_host_key_changes_within_the_run(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """The node counts as lost: its gang ends with the lease, the reason names the key."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=2, steps=400, step_s=0.2, limits={"lease_s": 8})
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    n2.change_host_key()
    n2.kill_sshd()
    n2.start_sshd()
    outcome = await asyncio.wait_for(task, 200)
    assert outcome.status is CaseStatus.FAILED
    assert "CHANGED" in outcome.why, outcome.why
    await eventually(lambda: marked(job.run_id) == [])


async def test_a_refused_key(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """Says which user and what to do; and never asks for more than a few logins."""
    for name in ("n1", "n2"):
        lab.host(name)
    lab.hosts["n2"].write_home(".ssh/authorized_keys", "")
    job = make_job(lab, shipment, repeats=1)
    with pytest.raises(LoginRefused, match=r"n2.*bench.*authorized_keys"):
        await measure(lab, shipment, job, make_store(tmp_path))
    assert marked(job.run_id) == []


async def test_the_key_is_refused_within_the_run(
    lab: Lab, shipment: Shipment, tmp_path: Path
) -> None:
    """An administrator took the key away: as a lost node, and `cancel` says why it cannot."""
    for name in ("n1", "n2"):
        lab.host(name)
    n2 = lab.hosts["n2"]
    job = make_job(lab, shipment, repeats=1, steps=400, step_s=0.2, limits={"lease_s": 8})
    store = make_store(tmp_path)
    task = asyncio.create_task(measure(lab, shipment, job, store))
    await eventually(in_phase(store, "window", repeat=1))
    n2.write_home(".ssh/authorized_keys", "")
    n2.kill_sshd()
    n2.start_sshd()
    with pytest.raises(UserError, match="n2"):
        await cancel(job, lab.targets())  # over the connection that was cut, or a new one
    with pytest.raises(LoginRefused, match="n2"):
        await cancel(job, lab.targets())
    outcome = await asyncio.wait_for(task, 200)
    assert outcome.status in (CaseStatus.FAILED, CaseStatus.CANCELLED)
    await eventually(lambda: marked(job.run_id) == [])


async def test_a_key_with_another_user(lab: Lab, shipment: Shipment, tmp_path: Path) -> None:
    """A node may have a login of its own."""
    for name in ("n1", "n2"):
        lab.host(name)
    targets = lab.targets()
    targets["n2"] = dataclasses.replace(targets["n2"], user="person")
    job = make_job(lab, shipment, repeats=1)
    store = make_store(tmp_path)
    events: list[GangEvent] = []
    outcome = await measure(lab, shipment, job, store, events, targets)
    assert outcome.status is CaseStatus.OK
    assert (lab.hosts["n2"].home / "person/.nightbench-node/jobs" / job.job_id).is_dir()
    assert left(job) == []
