"""Make `.venv` from the locks with Python and its module venv (Debian's package python3-venv).

The order: the environment's own pip installs a pinned uv and pip into it; uv installs the locks,
every file checked by its hash; last comes the project's own package, editable, with the command
`nightbench`. The nodes get the same uv.

pip's own configuration (files and environment) decides where packages come from. uv does not
read it, so it is translated into uv's variables and kept in `.venv/uv-env.json` for what later
makes environments with the same uv.

Standard library only, and no import of the package: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
VENV = REPO / ".venv"
REQUIREMENTS = REPO / "requirements"
UV_LOCK = REQUIREMENTS / "uv.lock"
LOCKS = ("control",)
"""What the environment is made from; `make setup-dev` adds the tools of developers."""
# The unpacked environment is about 1 GB, 2 GB with developers' tools; uv's cache holds it once more
# where it cannot link.
NEEDED_DISK_BYTES = 5 * 1000**3
PACKAGE = re.compile(r"^[A-Za-z0-9._-]+(?:\[[^]]*\])?==", re.MULTILINE)
FULL = re.compile(r"No space left on device|Disk quota exceeded")
UNREACHED = re.compile(
    r"ProxyError|NewConnectionError|NameResolutionError|ReadTimeout|ConnectTimeout"
    r"|Failed to (?:fetch|download)|dns error|tunnel error|[Cc]ould not connect|Connection refused"
)
"""What pip and uv say where nothing answered."""
CONTRADICTION = re.compile(
    r"[Bb]ecause (\S+ depends on ([\w.-]+).*? and \S+ depends on \2\b.*?),"
    r" we can conclude that .* are incompatible"
)
"""What uv says of two packages that need different versions of a third."""
SHOWN_S = 10.0
"""Interval of lines of progress."""
FETCHED = "some {:.0f} MB to fetch"


class SetupError(Exception):
    """What the user has to know when `make setup` cannot go on."""


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"setup: {text}", flush=True)


def parse_pip_config(listing: str) -> dict[str, str]:
    """Read the output of `pip config list` into the settings that `pip install` would use.

    Args:
        listing: lines such as `global.index-url='https://…'` or `:env:.find-links='/x'`.

    Returns:
        Setting name -> value. The environment wins over `[install]`, which wins over `[global]`.
    """
    rank = {"global": 0, "install": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in listing.splitlines():
        key, separator, literal = line.partition("=")
        section, dot, name = key.rpartition(".")
        if not separator or not dot or section not in rank:
            continue
        value = str(ast.literal_eval(literal))
        if name not in found or found[name][0] <= rank[section]:
            found[name] = (rank[section], value)
    return {name: value for name, (_, value) in found.items()}


def uv_environment(pip: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's settings into uv's variables.

    Args:
        pip: settings as `parse_pip_config` gives them.
        environ: the caller's environment; a `UV_*` variable set there is left as it is.

    Returns:
        The variables to add. With several indexes the best match over all of them is taken, as
        pip does: the locks' hashes say which file is right, whatever index it came from.
    """
    wanted = {"UV_SYSTEM_CERTS": "1", "UV_NO_PROGRESS": "1"}
    if index := pip.get("index-url"):
        wanted["UV_DEFAULT_INDEX"] = index.strip()
    if extra := pip.get("extra-index-url", "").split():
        wanted["UV_INDEX"] = " ".join(extra)
        wanted["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    if links := pip.get("find-links", "").split():
        wanted["UV_FIND_LINKS"] = ",".join(links)
    if pip.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        wanted["UV_NO_INDEX"] = "1"
    if hosts := pip.get("trusted-host", "").split():
        wanted["UV_INSECURE_HOST"] = " ".join(hosts)
    # pip retries patiently where `timeout` is raised; uv's name for it differs.
    if timeout := pip.get("default-timeout") or pip.get("timeout"):
        wanted["UV_HTTP_TIMEOUT"] = str(int(float(timeout)))
    if cert := pip.get("cert"):
        wanted["SSL_CERT_FILE"] = cert
    if proxy := pip.get("proxy"):
        wanted["HTTP_PROXY"] = wanted["HTTPS_PROXY"] = proxy
    return {
        name: value
        for name, value in wanted.items()
        if name not in environ and name.lower() not in environ
    }


def run(
    words: list[str],
    what: str,
    env: Mapping[str, str],
    log: Path,
    waiting: Callable[[], None] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a command with its output in the log; on failure show the log's tail.

    `waiting` is called every `SHOWN_S` seconds until it has ended.

    Raises:
        SetupError: the command ended with another status than 0.
    """
    with log.open("ab") as stream:
        start = stream.tell()
        stream.write(f"\n$ {' '.join(words)}\n".encode())
        stream.flush()
        with subprocess.Popen(
            words, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        ) as process:
            status = None
            while status is None:
                try:
                    status = process.wait(SHOWN_S)
                except subprocess.TimeoutExpired:
                    if waiting:
                        waiting()
                except BaseException:
                    process.kill()
                    raise
    if status:
        said = log.read_bytes()[start:].decode(errors="replace")
        raise SetupError(
            f"{what} failed (exit status {status}). {advice(said, env)}The whole log: {log}\n  "
            + "\n  ".join(line[:300] for line in said.splitlines()[-25:])
        )


def advice(said: str, env: Mapping[str, str]) -> str:
    """Return what to do about what pip or uv said, where that is known; else nothing."""
    if FULL.search(said):
        return f"The disk is full: make room below {VENV} and in uv's cache ({cache_of(env)}). "
    if pairs := CONTRADICTION.findall(said):
        return f"These contradict each other: {pairs[-1][0]}. "
    if not UNREACHED.search(said):
        return ""
    names = sorted(name for name in env if name.lower() in ("http_proxy", "https_proxy"))
    proxies = ", ".join(f"{name}={without_login(env[name])}" for name in names) or "none is set"
    return (
        f"A package index was not reached (proxy: {proxies}). Set https_proxy to a proxy that "
        "answers, or name a mirror or a folder of wheels: pip config set global.index-url URL, "
        "PIP_FIND_LINKS=/folder. "
    )


def fetching(env: Mapping[str, str], packages: int) -> Callable[[], None]:
    """Return what says how many packages uv has fetched and unpacked since now."""
    folder = Path(cache_of(env), "archive-v0")

    def unpacked() -> int:
        return len(os.listdir(folder)) if folder.is_dir() else 0

    before, began = unpacked(), time.monotonic()

    def show() -> None:
        new = min(packages, max(0, unpacked() - before))
        say(f"{time.monotonic() - began:.0f} s: {new} of {packages} packages fetched")

    return show


def cache_of(env: Mapping[str, str]) -> str:
    """Return where uv keeps what it has fetched."""
    base = env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return env.get("UV_CACHE_DIR") or f"{base}/uv"


def with_cache(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for uv; where the home cannot be written its cache is in build/."""
    cached = "UV_CACHE_DIR" in env or os.access(os.path.expanduser("~"), os.W_OK)
    return {**env} if cached else {**env, "UV_CACHE_DIR": str(REPO / "build" / "uv-cache")}


def without_login(url: str) -> str:
    """Return a URL without the user and the password in it."""
    return re.sub(r"(?<=//)[^/@]*@", "", url)


def lock_files(names: Sequence[str]) -> list[Path]:
    """Return the locks' files.

    Raises:
        SetupError: there is no lock of that name.
    """
    files = [REQUIREMENTS / f"{name}.lock" for name in names]
    if missing := [file.stem for file in files if not file.is_file()]:
        known = ", ".join(sorted(file.stem for file in REQUIREMENTS.glob("*.lock")))
        raise SetupError(f"--locks: found {', '.join(missing)}; expected some of {known}")
    return files


def environment_digest(python: str, locks: Sequence[Path]) -> str:
    """Return a digest of all that `.venv` is made from; equal digests need no work."""
    digest = hashlib.sha256()
    for path in (*locks, UV_LOCK, REPO / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    digest.update(f"{REPO}\0{python}\0{sys.version}".encode())
    # Another index or wheel folder than the last time has to reach uv-env.json.
    for name in sorted(os.environ):
        if name.startswith(("PIP_", "UV_")):
            digest.update(f"\0{name}={os.environ[name]}".encode())
    return digest.hexdigest()


def base_python() -> str:
    """Return this interpreter, or the one beneath where it runs in an environment.

    With `.venv/bin` on PATH the name `python3` is what is about to be made again.
    """
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def make_venv(python: str, log: Path) -> None:
    """Make an empty `.venv` with pip, unless one of this interpreter is there and answers.

    Raises:
        SetupError: the interpreter cannot, for want of a package say.
    """
    if works(python):
        return
    say(f"making .venv with Python {sys.version.split()[0]} ({python})")
    done = subprocess.run(
        [python, "-Im", "venv", "--clear", str(VENV)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        if "ensurepip" in said:
            series = "{}.{}".format(*sys.version_info)
            raise SetupError(
                f"{python} has no ensurepip, which makes environments. Debian and Ubuntu: "
                f"apt-get install python3-venv (or python{series}-venv)"
            )
        raise SetupError(f"making .venv failed:\n  {said[-2000:]}")
    log.unlink(missing_ok=True)


def install(env: Mapping[str, str], log: Path, locks: Sequence[Path]) -> None:
    """Bring `.venv` to the locks' state and install the project's own package in it."""
    inner, uv = {**env, "VIRTUAL_ENV": str(VENV)}, str(VENV / "bin" / "uv")
    run(
        [str(VENV / "bin" / "python"), "-Im", "pip", "--disable-pip-version-check", "--no-input",
         "install", "--quiet", "--only-binary", ":all:", "--require-hashes", "-r", str(UV_LOCK)],
        "Installing uv",
        # --user or a --prefix from pip.conf would lead elsewhere.
        {**env, "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"},
        log,
    )  # fmt: skip
    packages = sum(len(PACKAGE.findall(lock.read_text(encoding="utf-8"))) for lock in locks)
    say(f"installing {packages} locked packages (the first time {FETCHED.format(packages * 1.7)})")
    # uv itself reads no such variable: pip's `no-index` is said on the command line.
    alone = ["--no-index"] if env.get("UV_NO_INDEX") else []
    # Compiled once, not by each process where PYTHONDONTWRITEBYTECODE is set.
    kept = ["--require-hashes", "--strict", "--compile-bytecode"]
    run([uv, "pip", "sync", *kept, *alone, str(UV_LOCK), *map(str, locks)],
        "Installing the locked packages", inner, log, fetching(inner, packages))  # fmt: skip
    # The build backend is one of the locked packages: nothing is fetched.
    run([uv, "pip", "install", "--offline", "--no-deps", "--no-build-isolation",
         "--editable", str(REPO)],
        "Installing nightbench itself", inner, log)  # fmt: skip


def works(python: str) -> bool:
    """Tell whether `.venv` is one of this interpreter in this place, and answers."""
    inner = VENV / "bin" / "python"
    if not inner.exists():
        return False
    code = "import pip, sys; print(sys.version, sys.prefix, sys.base_prefix, sep='\\n')"
    answer = subprocess.run([str(inner), "-I", "-c", code], capture_output=True, check=False)
    expected = f"{sys.version}\n{VENV}\n{sys.base_prefix}\n"
    return answer.returncode == 0 and answer.stdout.decode() == expected


def check_disk() -> None:
    """Raise SetupError where the environment would not fit."""
    free = shutil.disk_usage(REPO).free
    if free < NEEDED_DISK_BYTES:
        raise SetupError(
            f"{REPO}: {free / 1e9:.1f} GB free, {NEEDED_DISK_BYTES / 1e9:.0f} GB needed for .venv. "
            "Make room there, or clone to a larger disk"
        )


@contextmanager
def only_one() -> Iterator[None]:
    """Keep a second `make setup` waiting until the first has ended."""
    folder = os.open(REPO, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is running here: waiting for it")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read (index addresses may hold credentials)."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
        stream.write(text)
    os.replace(beside, path)


def setup(force: bool, locks: Sequence[str] = LOCKS) -> None:
    """Do what `make setup` promises.

    Raises:
        SetupError: with a message for the user.
    """
    began = time.monotonic()
    python = base_python()
    lock_files(locks)  # before anything is made
    log, stamp, settings = (VENV / name for name in ("setup.log", "made-of", "uv-env.json"))
    with only_one():
        made_of, _, digest = stamp.read_text().partition("\n") if stamp.is_file() else ("", "", "")
        # What is more than asked for stays: `make demo` after `make test` takes no tools away.
        names = sorted({*locks, *made_of.split()})
        files = lock_files(names)
        wanted = environment_digest(python, files)
        if not force and settings.is_file() and digest == wanted:
            return
        check_disk()
        make_venv(python, log)
        stamp.unlink(missing_ok=True)
        listing = subprocess.run(
            [str(VENV / "bin" / "python"), "-Im", "pip", "config", "list"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if listing.returncode:
            raise SetupError(f"pip cannot read its configuration: {listing.stderr.strip()}")
        added = uv_environment(parse_pip_config(listing.stdout), os.environ)
        write_private(settings, json.dumps(added, indent=1) + "\n")
        install(with_cache({**os.environ, **added}), log, files)
        stamp.write_text(" ".join(names) + "\n" + wanted)
        say(f"done in {time.monotonic() - began:.0f} s: .venv/bin/nightbench")


def main() -> int:
    """Run from `tools/setup`; return the exit status."""
    parser = argparse.ArgumentParser(description="Make .venv from the locks.")
    parser.add_argument("--force", action="store_true", help="install again")
    parser.add_argument(
        "--locks", nargs="+", default=LOCKS, metavar="NAME", help="install these locks alone"
    )
    options = parser.parse_args()
    try:
        setup(options.force, options.locks)
    except (SetupError, OSError) as error:
        print(f"nightbench setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
