"""What `make setup` takes over from pip's configuration, and what it says where it cannot."""

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

from nightbench.core.package_files import CHECKOUT as REPO


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", REPO / "tools" / "bootstrap.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pips_own_listing_is_read_with_pips_precedence(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://index.example/simple\n"
        "extra-index-url =\n    https://one.example/simple\n    https://two.example/simple\n"
        "find-links = /wheels\n[install]\nfind-links = /install-wheels\n[list]\nfind-links = /no\n"
    )
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={"PIP_CONFIG_FILE": str(config), "PIP_TRUSTED_HOST": "one.example"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = bootstrap.parse_pip_config(listing)
    assert found["index-url"] == "https://index.example/simple"
    assert found["find-links"] == "/install-wheels"
    assert found["trusted-host"] == "one.example"
    added = bootstrap.uv_environment(found, {})
    assert added["UV_DEFAULT_INDEX"] == "https://index.example/simple"
    assert added["UV_INDEX"] == "https://one.example/simple https://two.example/simple"
    assert added["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert added["UV_FIND_LINKS"] == "/install-wheels"
    assert added["UV_INSECURE_HOST"] == "one.example"


def test_the_environment_wins_over_files(bootstrap: ModuleType) -> None:
    listing = ":env:.index-url='https://env'\nglobal.index-url='https://file'\n"
    assert bootstrap.parse_pip_config(listing) == {"index-url": "https://env"}


def test_what_is_set_for_uv_by_hand_stays(bootstrap: ModuleType) -> None:
    added = bootstrap.uv_environment(
        {"index-url": "https://pip", "find-links": "/a /b", "proxy": "http://p:1"},
        {"UV_DEFAULT_INDEX": "https://mine", "https_proxy": "http://mine:2"},
    )
    assert "UV_DEFAULT_INDEX" not in added
    assert added["UV_FIND_LINKS"] == "/a,/b"
    assert "HTTPS_PROXY" not in added
    assert added["HTTP_PROXY"] == "http://p:1"


def test_nothing_configured_means_the_systems_certificates_and_no_more(
    bootstrap: ModuleType,
) -> None:
    assert bootstrap.uv_environment({}, {}) == {"UV_SYSTEM_CERTS": "1", "UV_NO_PROGRESS": "1"}


def test_every_locked_package_has_a_hash() -> None:
    for lock in (REPO / "requirements").glob("*.lock"):
        entries = lock.read_text().replace("\\\n", " ").splitlines()
        pinned = [line for line in entries if "==" in line and not line.lstrip().startswith("#")]
        assert pinned
        assert [line for line in pinned if "--hash=sha256:" not in line] == []


def _fake_python(path: Path, minor: int, ensurepip: bool = True) -> None:
    """An interpreter that answers as `python3.<minor>`, and prints its name to run bootstrap.py."""
    rank = minor + (100 if ensurepip else 0)
    answer = f"echo {rank}" if 11 <= minor <= 14 else "exit 1"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.{minor}.2" && exit 0\n'
        f'case "$*" in *bootstrap.py*) echo "{path.name} runs $3";; *) {answer};; esac\n'
    )
    path.chmod(0o755)


def _setup(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run tools/setup with the interpreters of a folder alone."""
    script = (REPO / "tools" / "setup").read_text().replace("/usr/bin/python3", "/nowhere/python3")
    (folder / "setup").write_text(script)
    path = f"{folder}:/bin-none"
    # The script finds bootstrap.py by `dirname`.
    (folder / "dirname").write_text("#!/bin/sh\necho " + str(folder) + "\n")
    (folder / "dirname").chmod(0o755)
    return subprocess.run(
        ["/bin/sh", str(folder / "setup"), *words],
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_setup_says_when_no_fitting_python_answers(tmp_path: Path) -> None:
    # As an old distribution has it.
    _fake_python(tmp_path / "python3", 9)
    outcome = _setup(tmp_path)
    assert outcome.returncode == 1
    assert "found: Python 3.9.2" in outcome.stderr
    for advice in ("apt-get install python3 python3-venv", "deadsnakes", "uv python install"):
        assert advice in outcome.stderr


def test_setup_takes_the_newest_python_that_makes_environments(tmp_path: Path) -> None:
    _fake_python(tmp_path / "python3", 11)
    _fake_python(tmp_path / "python3.12", 12)
    _fake_python(tmp_path / "python3.13", 13)
    _fake_python(tmp_path / "python3.14", 14, ensurepip=False)
    outcome = _setup(tmp_path, "--force")
    assert outcome.stdout == "python3.13 runs --force\n"
    for newer in ("python3.12", "python3.13"):
        (tmp_path / newer).unlink()
    assert _setup(tmp_path, "--force").stdout == "python3 runs --force\n"
    (tmp_path / "python3").unlink()
    # It says what is missing (ensurepip) better than that there is no Python.
    assert _setup(tmp_path, "--force").stdout == "python3.14 runs --force\n"


def test_setup_does_not_replace_a_python_that_was_named(tmp_path: Path) -> None:
    outcome = subprocess.run(
        [str(REPO / "tools" / "setup")],
        env={"PATH": "/usr/bin:/bin", "NIGHTBENCH_PYTHON": "/nowhere/python3.12"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "NIGHTBENCH_PYTHON=/nowhere/python3.12 does not run" in outcome.stderr


def test_an_interpreter_that_makes_no_environments_names_the_package(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What Debian's python3 says without python3-venv.
    python = tmp_path / "python3"
    python.write_text(
        "#!/bin/sh\necho 'The virtual environment was not created successfully because ensurepip "
        "is not'\nexit 1\n"
    )
    python.chmod(0o755)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    with pytest.raises(bootstrap.SetupError, match="apt-get install python3-venv"):
        bootstrap.make_venv(str(python), tmp_path / "log")


def test_an_active_environment_is_not_the_base_of_itself(bootstrap: ModuleType) -> None:
    beneath = Path(bootstrap.base_python())
    assert not beneath.is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix
    said = subprocess.run([beneath, "-c", "import sys; print(sys.version)"], capture_output=True)
    assert said.stdout.decode().strip() == sys.version


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "WARNING: Retrying after connection broken by 'ProxyError('Cannot connect to proxy.')",
            "A package index was not reached (proxy: HTTPS_PROXY=http://proxy:1). Set https_proxy",
        ),
        (
            "error: Failed to fetch: `https://pypi.org/simple/pip/`\n  Caused by: dns error",
            "A package index was not reached (proxy: HTTPS_PROXY=http://proxy:1). Set https_proxy",
        ),
        ("error: No space left on device (os error 28)", "The disk is full: make room below "),
        ("error: hash mismatch", ""),
        (
            "Because b>=1 depends on c>=2 and d==3 depends on c, we can conclude that f is out.\n"
            "And because b>=1 depends on d>=2.1,<3.0.0 and a==3 depends on d{python_version < "
            "'3.13'}==4.0, we can conclude that a==3 and b>=1 are incompatible.\n"
            "And because only g is available, we can conclude that g cannot be used.",
            "These contradict each other: b>=1 depends on d>=2.1,<3.0.0 and a==3 depends on d{p",
        ),
    ],
)
def test_what_pip_and_uv_say_becomes_advice(
    bootstrap: ModuleType, said: str, expected: str
) -> None:
    found = bootstrap.advice(said, {"HTTPS_PROXY": "http://me:secret@proxy:1"})
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    assert "secret" not in found


def test_how_much_is_fetched_is_said(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unpacked = tmp_path / "archive-v0"
    (unpacked / "old").mkdir(parents=True)
    show = bootstrap.fetching({"UV_CACHE_DIR": str(tmp_path)}, 3)
    (unpacked / "new").mkdir()
    show()
    assert "1 of 3 packages fetched" in capsys.readouterr().out


def test_a_command_that_takes_long_is_told_of(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "SHOWN_S", 0.05)
    told: list[int] = []
    bootstrap.run(["sleep", "0.5"], "Waiting", {}, tmp_path / "log", lambda: told.append(1))
    assert told
    with pytest.raises(bootstrap.SetupError, match="Failing failed"):
        bootstrap.run(["false"], "Failing", {}, tmp_path / "log")


RESOLVER = """#!/bin/sh
[ "$1 $2" = "pip compile" ] || exit 9
for word in "$@"; do
    case "$word" in
        *.lock) lock=$word ;; *.in) wanted=$word ;;
    esac
done
case "$wanted" in
    requirements/all.in) [ "$(wc -l < "$wanted")" = 7 ] && echo together > "$lock"; exit ;;
esac
if [ "$(cat "$lock")" = together ]; then upgrade=" upgraded"; fi
if grep -q absent "$wanted"; then echo "no version of absent"; exit 1; fi
case "$lock" in
    */s3.lock) grep -q "^new control" requirements/control.lock || exit 8 ;;
esac
echo "new $(cat "$wanted")$upgrade" > "$lock"
"""
"""Stands for uv, which keeps what the lock has; `s3` is constrained by the new `control`."""


@pytest.fixture
def relock(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(REPO / "tools")
    return importlib.import_module("relock")


@pytest.fixture
def locking(relock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of requirements, of which only a resolver's stand-in makes locks."""
    requirements = tmp_path / "requirements"
    requirements.mkdir()
    for name in relock.RESOLVED:
        (requirements / f"{name}.in").write_text(f"{name}\n")
        (requirements / f"{name}.lock").write_text(f"new {name}\n" if name == "uv" else "old\n")
    monkeypatch.setattr(relock, "REQUIREMENTS", requirements)
    uv = tmp_path / "uv"
    uv.write_text(RESOLVER)
    uv.chmod(0o755)
    return requirements


def test_locks_keep_their_versions_unless_they_are_to_be_upgraded(
    relock: ModuleType, locking: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    relock.make_locks(tmp_path / "uv", os.environ, tmp_path / "log")
    assert (locking / "s3.lock").read_text() == "new s3\n"
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("setup: changed: requirements/control.lock, requirements/analysis.lock,")
    relock.make_locks(tmp_path / "uv", os.environ, tmp_path / "log")
    assert capsys.readouterr().out.endswith("setup: changed: nothing\n")
    relock.make_locks(tmp_path / "uv", os.environ, tmp_path / "log", upgrade=True)
    assert (locking / "s3.lock").read_text() == "new s3 upgraded\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "requirements", "uv"]


def test_where_one_lock_cannot_be_made_none_is_changed(
    relock: ModuleType, locking: Path, tmp_path: Path
) -> None:
    (locking / "s3.in").write_text("absent\n")
    with pytest.raises(relock.SetupError) as caught:
        relock.make_locks(tmp_path / "uv", os.environ, tmp_path / "log")
    assert str(caught.value).startswith("No lock was changed: Locking s3.in failed (exit status 1)")
    assert "no version of absent" in str(caught.value)
    assert {path.read_text() for path in locking.glob("[!u]*.lock")} == {"old\n"}


def test_a_setup_with_fewer_locks_takes_no_tools_away(
    bootstrap: ModuleType, locking: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = tmp_path / ".venv"
    (venv / "bin").mkdir(parents=True)
    # Not a link: through one, Python looks for pip beside its base, where Debian keeps none.
    (venv / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (venv / "bin" / "python").chmod(0o755)
    (venv / "made-of").write_text("control dev\n0")
    monkeypatch.setattr(bootstrap, "VENV", venv)
    monkeypatch.setattr(bootstrap, "REQUIREMENTS", locking)
    monkeypatch.setattr(bootstrap, "UV_LOCK", locking / "uv.lock")
    monkeypatch.setattr(bootstrap, "make_venv", lambda python, log: None)
    installed: list[Sequence[Path]] = []
    monkeypatch.setattr(bootstrap, "install", lambda env, log, locks: installed.append(locks))
    monkeypatch.setattr(bootstrap, "check_disk", lambda: None)
    bootstrap.setup(False)
    assert installed == [[locking / "control.lock", locking / "dev.lock"]]
    assert (venv / "made-of").read_text().startswith("control dev\n")
