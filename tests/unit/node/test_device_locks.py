"""Jobs that lock devices share a node; one that wants the node as a whole excludes them."""

from __future__ import annotations

import json
from typing import Any

from node_driver import one_node, wait_until
from nodeside.locks import JobLock, current_holders, device_lock_path, holder_document

SERVER = {"SSH_CONNECTION": "10.0.0.9 55555 127.0.0.1 2222"}


def job(name: str, devices: list[str], lock: str = "devices") -> dict[str, Any]:
    document = one_node(trainers=1, lock=lock)
    document["job_id"] = name
    document["nodes"][0]["name"] = name
    document["nodes"][0]["devices"] = devices
    for entry in document["processes"] + document["ports"]:
        entry["node"] = name
    return document


def idle(node: Any) -> bool:
    return node.agent().get("state") == "idle"


def test_jobs_on_different_devices_share_a_node_and_the_same_device_excludes(drive, tmp_path):
    first = drive(job("one", ["0", "1"]), node="one")
    second = drive(job("two", ["2"]), node="two")
    wait_until(lambda: idle(first) and idle(second), what="both to hold their devices")
    third = drive(job("three", ["1", "2"]), node="three")
    shown = wait_until(lambda: third.agent().get("holder"))
    assert (shown["job_id"], shown["device"]) == (first.job_id, "gpu-1")
    holders = current_holders(str(tmp_path / "locks"), first.env)
    assert [(h["job_id"], h["device"]) for h in holders] == [
        (first.job_id, "gpu-0"),
        (first.job_id, "gpu-1"),
        (second.job_id, "gpu-2"),
    ]
    assert all(holder["since"] for holder in holders)
    first.stop()
    wait_until(
        lambda: (third.agent()["holder"] or {}).get("job_id") == second.job_id,
        what="the next holder",
    )
    second.stop()
    wait_until(lambda: idle(third))
    holders = current_holders(str(tmp_path / "locks"), first.env)
    assert [(h["job_id"], h["device"]) for h in holders] == [
        (third.job_id, "gpu-1"),
        (third.job_id, "gpu-2"),
    ]


def test_a_job_that_wants_the_node_waits_for_devices_and_they_for_it(drive):
    device = drive(job("one", ["0"]), node="one")
    wait_until(lambda: idle(device))
    whole = drive(job("two", ["0", "1"], lock="node"), node="two")
    shown = wait_until(lambda: whole.agent().get("holder"))
    assert (shown["job_id"], shown["device"]) == (device.job_id, "gpu-0")
    device.stop()
    wait_until(lambda: idle(whole))
    another = drive(job("three", ["3"]), node="three")
    shown = wait_until(lambda: another.agent().get("holder"))
    assert shown["job_id"] == whole.job_id
    assert "device" not in shown
    whole.stop()
    wait_until(lambda: idle(another))


def test_on_a_cpu_node_the_cores_are_the_devices(drive, tmp_path):
    document = job("one", [])
    node = drive(document, node="one", start=False)
    document["nodes"][0]["cpus"] = [0]

    (node.folder / "job.json").write_text(json.dumps(document))
    node.start()
    wait_until(lambda: idle(node))
    (holder,) = current_holders(str(tmp_path / "locks"), node.env)
    assert holder["device"] == "cpu-0"


def test_without_devices_and_cores_the_node_is_locked(drive, tmp_path):
    node = drive(job("one", []), node="one")
    wait_until(lambda: idle(node))
    (holder,) = current_holders(str(tmp_path / "locks"), node.env)
    assert "device" not in holder


def test_all_or_nothing(tmp_path):
    path = str(tmp_path / "node.lock")
    one, two = JobLock(path, ["a", "c"]), JobLock(path, ["b", "c"])
    assert one.acquire(holder_document("one", SERVER))
    assert not two.acquire(holder_document("two", SERVER))
    free = JobLock(path, ["b"])
    assert free.acquire(holder_document("three", SERVER)), "the refused one holds nothing back"
    found = two.holder()
    assert found is not None
    assert (found["job_id"], found["device"]) == ("one", "c")
    for lock in (one, two, free):
        lock.close()


def test_names_of_devices_are_no_paths(tmp_path):
    path = str(tmp_path / "node.lock")
    assert device_lock_path(path, "../../etc/x") == str(tmp_path / "node.device-.._.._etc_x.lock")
    lock = JobLock(path, ["../../etc/x", "$(reboot)"])
    assert lock.acquire(holder_document("one", SERVER))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [
        "node.device-.._.._etc_x.lock",
        "node.device-__reboot_.lock",
        "node.lock",
    ]
    lock.close()


def test_what_a_dead_holder_of_the_node_wrote_is_not_believed(tmp_path):
    path = tmp_path / "node.lock"
    path.write_text('{"job_id": "dead"}')
    shared = JobLock(str(path), ["a"])
    assert shared.acquire(holder_document("living", SERVER))
    whole = JobLock(str(path))
    assert not whole.acquire(holder_document("other", SERVER))
    found = whole.holder()
    assert found is not None
    assert found["job_id"] == "living"
    for lock in (shared, whole):
        lock.close()
