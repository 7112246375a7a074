"""Asks a Nightbench for a comparison and waits for its answer, in a job of a CI.

    python3 compare.py ask       request the comparison; a wheel of the job is sent first
    python3 compare.py wait      wait until it has ended
    python3 compare.py cancel    cancel what this job has requested and not seen the end of

Each writes what the server says into the folder of the setting `output`. Exit code 0: no slower, or
not known; 1: slower; 2: not measured; 130: cancelled. Needs Python 3.8 and its standard library.
Settings are the action's inputs as JSON in NIGHTBENCH_INPUTS, or variables NIGHTBENCH_*.
"""

from __future__ import annotations

import glob
import hashlib
import http.client
import json
import os
import re
import signal
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PACE = float(os.environ.get("NIGHTBENCH_PACE") or 1)
"""Factor of all waiting; tests make it small."""
POLL_S = 30 * PACE
PATIENCE_S = 900 * PACE
"""How long a call is tried again while the other side is away."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
COMPARISONS = "/nightbench/api/comparisons"
INPUTS: dict[str, str] = json.loads(os.environ.get("NIGHTBENCH_INPUTS") or "{}")


class Fault(Exception):
    """An error that ends the job with exit code 2."""


def setting(name: str, default: str = "") -> str:
    """Return a setting without white space around it."""
    found = INPUTS.get(name) or os.environ.get("NIGHTBENCH_" + name.upper().replace("-", "_"), "")
    return found.strip() or default


def seconds(name: str, default: str = "") -> float:
    """Return a duration in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", setting(name, default))
    if not found:
        raise Fault(f'{name}: found "{setting(name)}"; expected a duration: 90s, 45m, 3h')
    return float(found[1]) * UNITS[found[2]]


def fraction(value: str) -> float:
    """Return "2%" or "0.02" as 0.02."""
    return float(value[:-1]) / 100 if value.endswith("%") else float(value)


def number(name: str, kind: Callable[[str], float]) -> float | None:
    """Return a number; None if none is set."""
    try:
        return kind(setting(name)) if setting(name) else None
    except ValueError:
        raise Fault(f'{name}: found "{setting(name)}"; expected a number') from None


def say(text: object, level: str = "") -> None:
    """Print one line that no runner takes for a command; GitHub shows one with a level."""
    line = "".join(each if each.isprintable() else " " for each in str(text))[:2000]
    line = line.replace("##[", "# [")
    if level and "GITHUB_ACTIONS" in os.environ:
        print(f"::{level} title=Nightbench::" + line.replace("%", "%25"), flush=True)
    else:
        print(f"nightbench: {line}", flush=True)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would take the token along to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Let the answer be an error."""


class Api:
    """JSON over HTTP at one address."""

    def __init__(self, base: str, headers: dict[str, str]) -> None:
        if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", base):
            raise Fault("url: expected https://HOST without user or password; not shown here")
        self.base, self.headers = base.rstrip("/"), headers
        self._open = urllib.request.build_opener(_Stay).open

    def text(self, method: str, path: str, body: Any = None) -> str:
        """Return what an address answers; it is tried again while the other side is away."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self._once(method, path, body)
            except urllib.error.HTTPError as error:
                said = error.read(500).decode(errors="replace")
                why = f"{error.code} {error.headers.get('Location') or said}"
                if error.code == 401 and self.renew():
                    continue
                if error.code < 500 and error.code != 429:
                    raise Fault(f"{method} {self.base}{path}: {why}") from None
            except (OSError, http.client.HTTPException) as error:
                why = str(getattr(error, "reason", error)) or type(error).__name__
            if time.monotonic() + POLL_S > until:
                raise Fault(f"{method} {self.base}{path}: {why}")
            say(f"{method} {self.base}{path}: {why}; again in {POLL_S:.0f} s")
            time.sleep(POLL_S)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return what an address answers as JSON."""
        text = self.text(method, path, body)
        try:
            return json.loads(text)
        except ValueError:
            raise Fault(
                f"{method} {self.base}{path}: found no JSON; is the address right?"
            ) from None

    def renew(self) -> bool:
        """Return whether a new token was got for one that is refused."""
        return False

    def _once(self, method: str, path: str, body: Any) -> str:
        """Send JSON, or a file as it is."""
        headers = {"User-Agent": "nightbench-compare", "Content-Type": "application/json"}
        data = body.read_bytes() if isinstance(body, Path) else json.dumps(body or {}).encode()
        if isinstance(body, Path):
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(
            self.base + path, None if method == "GET" else data, {**headers, **self.headers}
        )
        request.method = method
        with self._open(request, timeout=30) as answer:
            return bytes(answer.read()).decode()


class Nightbench(Api):
    """The comparisons of one Nightbench, and the one that this job has requested."""

    def __init__(self) -> None:
        super().__init__(setting("url"), {})
        self._login = {"username": setting("user"), "password": setting("password")}
        self._renewed_at = -PATIENCE_S
        if token := setting("token"):
            self.headers = {"Authorization": f"Bearer {token}"}
        elif not self.renew():
            raise Fault("token: found nothing; expected a token of Airflow, or user and password")
        self.folder = Path(setting("output", "nightbench-compare"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.note = self.folder / "request"
        self.state: Any = {}

    def renew(self) -> bool:
        """Log in, where there is a password; not again at once for what the new token gets."""
        if not all(self._login.values()) or time.monotonic() < self._renewed_at + POLL_S:
            return False
        self._renewed_at = time.monotonic()
        self.headers = {}
        token = self.call("POST", "/auth/token", self._login)["access_token"]
        if "GITHUB_ACTIONS" in os.environ:
            print(f"::add-mask::{token}", flush=True)
        self.headers = {"Authorization": f"Bearer {token}"}
        return True

    def path(self, rest: str = "") -> str:
        """Return the path of the request, or of what belongs to it."""
        return f"{COMPARISONS}/{self.note.read_text().strip()}{rest}"

    def ask(self) -> None:
        """Request the comparison, and note its number."""
        given = {
            **{name: setting(name) for name in ("suite", "cluster", "priority", "note")},
            **{name: self._build(name) for name in "ab"},
            "cases": re.findall(r"[^\s,]+", setting("cases")),
            "rounds": number("rounds", int),
            "min_effect": number("min-effect", fraction),
            "budget_s": setting("budget") and seconds("budget"),
            "profile": setting("profile") == "true",
            "change_url": setting("change-url"),
            "change_commit": setting("change-commit"),
            "fork": setting("fork") == "true",
        }
        body = {name: value for name, value in given.items() if value}
        # Signals wait: a request whose number is not known could not be cancelled.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        self.state = self.call("POST", COMPARISONS, body)
        self.note.write_text(f"{self.state['experiment_id']}\n")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        self.report()

    def _build(self, name: str) -> str:
        """Return a build as the queue takes it; a wheel that lies here is sent."""
        line, is_file, pattern = setting(name).partition("=file:")
        if not is_file:
            return line
        found = glob.glob(pattern)
        if len(found) != 1:
            raise Fault(f'{name}: found {len(found)} files "{pattern}"; expected a wheel')
        wheel = Path(found[0])
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        where = f"{COMPARISONS}/wheels/{urllib.parse.quote(wheel.name)}?sha256={digest}"
        return f"{line}={self.call('POST', where, wheel)['build']}"

    def wait(self) -> int:
        """Wait for the answer, at most for `timeout`; return the exit code."""
        limit = setting("timeout", "3h")
        if self.poll(time.monotonic() + seconds("timeout", "3h")):
            self.cancel(f"its job waits no longer than {limit}")
            # A verdict may be there, and have waited for its profile alone.
            if self.state["verdict"] is None:
                raise Fault(f"not ended in {limit}: {self.state['headline']}")
        self.note.unlink()
        concludes = self.state["conclusion"]
        if concludes == "failure" and setting("fail-on-regression", "true") != "true":
            concludes = "regression"
        level = {"error": "error", "failure": "error", "regression": "warning"}.get(concludes, "")
        say(self.state["headline"], level)
        return {"error": 2, "failure": 1}.get(concludes, 0)

    def poll(self, until: float) -> bool:
        """Follow the request; return whether it still has no answer when the time is over."""
        while True:
            self.state = self.call("GET", self.path())
            if self.state["conclusion"] != "pending" or time.monotonic() > until:
                self.report()
                return bool(self.state["conclusion"] == "pending")
            time.sleep(POLL_S)

    def cancel(self, why: str) -> None:
        """Cancel the request; one that has ended meanwhile stays as it is."""
        try:
            self.text("POST", self.path("/cancel"), {"why": why})
        except Fault as fault:
            if ": 409 " not in str(fault):
                raise
        self.state = self.call("GET", self.path())
        self.report()

    def give_up(self) -> None:
        """Cancel the request, if this job has one without an answer."""
        if self.note.exists():
            self.cancel("its job was cancelled")
            self.note.unlink()

    def report(self) -> None:
        """Write what the server says of the request into files, outputs and the job's summary."""
        names = ["comment.md", "junit.xml", *(["result.json"] if self.state["verdict"] else [])]
        texts = {name: self.text("GET", self.path("/" + name)) for name in names}
        for name, text in texts.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        outputs = {
            "request-id": self.state["experiment_id"],
            # The comment belongs to the newer commit then.
            "replaced": str(bool(self.state["replaced_by"])).lower(),
            **{name: self.state[name] for name in ("state", "conclusion", "verdict", "headline")},
            "page": self.state["links"].get("page", self.state["links"]["self"]),
        }
        if path := os.environ.get("GITHUB_OUTPUT"):
            lines = (f"{name}={' '.join(str(v or '').split())}\n" for name, v in outputs.items())
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(lines)
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if path and self.state["conclusion"] != "pending":
            Path(path).write_text(texts["comment.md"], encoding="utf-8")
        if setting("forge-token") and not self.state["replaced_by"]:
            try:
                keep_note(texts["comment.md"])
            except Fault as fault:  # the measurement goes on without a comment
                say(f"the note on the merge request cannot be written: {fault}", "warning")


def keep_note(text: str) -> None:
    """Write the one note on a merge request of GitLab, whose API has none that edits its own."""
    api = Api(os.environ["CI_API_V4_URL"], {"PRIVATE-TOKEN": setting("forge-token")})
    project, number = (os.environ[f"CI_MERGE_REQUEST_{each}"] for each in ("PROJECT_ID", "IID"))
    notes = f"/projects/{project}/merge_requests/{number}/notes"
    mark = f"<!-- nightbench-compare {setting('name', 'nightbench')} -->\n"
    body, me, page = {"body": mark + text}, api.call("GET", "/user")["id"], 1
    while found := api.call("GET", f"{notes}?per_page=100&page={page}&sort=asc"):
        for note in found:
            if note["author"]["id"] == me and note["body"].startswith(mark):
                api.text("PUT", f"{notes}/{note['id']}", body)
                return
        page += 1
    api.text("POST", notes, body)


def main(command: str) -> int:
    """Run a command; return its exit code."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        nightbench = Nightbench()
        try:
            if command == "ask":
                nightbench.ask()
            if command == "wait":
                return nightbench.wait()
            if command == "cancel":
                nightbench.give_up()
        except KeyboardInterrupt:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, signal.SIG_IGN)
            nightbench.give_up()
            return 130
    except Fault as error:
        say(error, "error")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
