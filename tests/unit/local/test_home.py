"""Paths, ports, secrets, logs, and the check of disk and memory."""

import json
import os
import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from nightbench.config import locations
from nightbench.core.errors import UserError
from nightbench.local import home as homes
from nightbench.local import lifecycle, logfiles, ports, resources
from nightbench.local.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "state")
    home.make()
    return home


def test_the_home_is_the_named_folder_or_lies_in_the_checkout_or_with_airflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NIGHTBENCH_HOME", raising=False)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    assert homes.find_home().root == Path(__file__).resolve().parents[3] / ".nightbench"
    monkeypatch.setattr(locations, "CHECKOUT", None)
    assert homes.find_home().root == tmp_path / "airflow" / "nightbench"
    monkeypatch.setenv("NIGHTBENCH_HOME", str(tmp_path))
    assert homes.find_home().root == tmp_path


def test_the_home_is_closed_to_others(home: Home) -> None:
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_a_home_that_cannot_be_made_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file/state: cannot be used"):
        Home(tmp_path / "file" / "state").make()


def choose(home: Home, *running: str) -> ports.Ports:
    """Ports that are reserved no longer than the choice takes."""
    with ExitStack() as reserved:
        return ports.choose_ports(home, reserved, frozenset(running))


def test_a_taken_port_is_passed_over_and_the_choice_stays(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        home.ports_file.write_text(json.dumps({"api": number, "postgres": 0, "cluster": 0}))
        assert not ports.is_free(number)
        # Our own server holds it: the number stays.
        assert choose(home, "api", "postgres", "cluster").api == number
        chosen = choose(home, "postgres", "cluster")
        assert number < chosen.api <= number + ports.SEARCH
    assert choose(home, "postgres", "cluster").api == chosen.api


def test_ports_differ_from_each_other(home: Home) -> None:
    home.ports_file.write_text(json.dumps({"api": 42000, "postgres": 42000, "cluster": 42000}))
    chosen = choose(home)
    assert len({chosen.api, chosen.postgres, chosen.cluster}) == 3


def test_two_homes_that_start_at_once_get_different_ports(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.make()
    with ExitStack() as reserved, ExitStack() as by_other:
        mine = ports.choose_ports(home, reserved)
        others = ports.choose_ports(other, by_other)
    # Nothing listens on any of them yet.
    assert {*vars(mine).values()}.isdisjoint(vars(others).values())
    assert choose(home) == mine


def test_a_damaged_ports_file_is_named(home: Home) -> None:
    home.ports_file.write_text('{"api": 1, "other": 2}')
    with pytest.raises(UserError, match=re.escape(str(home.ports_file))):
        ports.load_ports(home)


def test_secrets_are_made_once_and_for_their_owner_only(home: Home) -> None:
    made = homes.load_or_create_secrets(home)
    assert home.secrets_file.stat().st_mode & 0o777 == 0o600
    assert homes.load_or_create_secrets(home) == made
    assert len(made.jwt_secret.encode()) >= 64
    assert len({*vars(made).values()}) == len(vars(made))


def test_a_secret_that_an_earlier_version_lacks_is_made_once(home: Home) -> None:
    made = homes.load_or_create_secrets(home)
    older = {k: v for k, v in vars(made).items() if k != "nightbench_triage"}
    home.secrets_file.write_text(json.dumps(older))
    now = homes.load_or_create_secrets(home)
    assert homes.load_or_create_secrets(home) == now
    assert {k: v for k, v in vars(now).items() if k in older} == older


def test_secrets_do_not_show_in_their_repr(home: Home) -> None:
    made = homes.load_or_create_secrets(home)
    assert not any(value in repr(made) for value in vars(made).values())


def test_secrets_that_others_may_read_are_refused(home: Home) -> None:
    homes.load_or_create_secrets(home)
    home.secrets_file.chmod(0o640)
    with pytest.raises(UserError, match=r"found permissions 640; expected 600. Run: chmod 600"):
        homes.load_or_create_secrets(home)


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    target.chmod(0o666)
    homes.write_private(target, "new")
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_old_logs_go_and_young_ones_stay(home: Home) -> None:
    old, young = home.airflow_logs / "dag_id=x" / "1.log", home.logs / "postgres.log"
    old.parent.mkdir()
    for path in (old, young):
        path.write_text("line\n")
    past = time.time() - 31 * 86400
    os.utime(old, (past, past))
    assert logfiles.expire(home.logs, days=30) == 1
    assert not old.exists()
    assert young.exists()


def test_an_unknown_log_lists_those_there_are(
    home: Home, capfd: pytest.CaptureFixture[str]
) -> None:
    (home.logs / "postgres.log").write_text("one\ntwo\n")
    logfiles.show(home, "postgres", lines=1, follow=False)
    assert capfd.readouterr().out == "two\n"
    with pytest.raises(UserError, match="Known services: postgres"):
        logfiles.show(home, "nothing", lines=1, follow=False)


def test_short_resources_are_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "DEMO_DISK_BYTES", 10**18)
    with pytest.raises(UserError, match=r"GB free, 1000000000 GB needed.*NIGHTBENCH_HOME"):
        resources.require_resources(home)
    # Environments that stand already need no such room again.
    built = home.cluster / "n1" / ".nightbench-node" / "envs" / "x"
    built.mkdir(parents=True)
    (built / ".ok.json").write_text("{}")
    monkeypatch.setattr(resources, "BUILT_DISK_BYTES", 0)
    monkeypatch.setattr(resources, "MEMORY_BYTES", 0)
    assert len(resources.require_resources(home)) == 2


def test_a_new_control_plane_wants_room_on_the_disk(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "UP_DISK_BYTES", 10**18)
    with pytest.raises(UserError, match=r"GB free, 1000000000\.0 GB needed.*NIGHTBENCH_HOME"):
        next(lifecycle.up(home))


def test_a_failure_on_a_full_disk_says_that_it_is_full(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bool:
        raise UserError("initdb failed")

    monkeypatch.setattr(lifecycle, "FULL_DISK_BYTES", 10**18)
    monkeypatch.setattr(lifecycle, "choose_ports", fails)
    with pytest.raises(UserError, match=r"is full: .* free.*NIGHTBENCH_HOME.*initdb failed"):
        next(lifecycle.up(home))


def test_available_memory_is_what_the_kernel_says_at_most() -> None:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < resources.available_memory_bytes() <= total


def test_a_port_that_another_process_listens_on_is_not_taken_for_ours() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        number = server.getsockname()[1]
        assert not ports.is_listening(number, [os.getpid()])
        server.listen()
        assert ports.is_listening(number, [os.getpid()])
        assert not ports.is_listening(number, [os.getppid()])
