"""Asks a Nightbench for a comparison, follows it, and keeps the change of a CI's job informed.

    python3 compare.py           ask, follow, answer
    python3 compare.py cancel    cancel what this job has asked for and not seen the end of

Exit code 0: no slower, or not known; 1: slower; 2: not measured; 130: cancelled. Needs Python 3.8
and its standard library. Settings are the variables NIGHTBENCH_*, as action.yml sets them; the
change is that of the job in GitHub Actions or GitLab CI. Anywhere else there is neither comment nor
status.
"""

from __future__ import annotations

import contextlib
import email.utils
import functools
import glob
import hashlib
import http.client
import json
import os
import random
import re
import signal
import ssl
import sys
import time
import traceback
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Json = Any
T = TypeVar("T")

ENDING = (signal.SIGINT, signal.SIGTERM)
"""GitHub's runner sends SIGINT, 7.5 s later SIGTERM, and 2.5 s later kills."""
LAST_CALL_S = 2.0
"""Timeout of each of the few calls that are made then."""
PACE = float(os.environ.get("NIGHTBENCH_PACE") or 1)
"""Factor of all waiting below; tests make it small."""
POLL_S = 30 * PACE
EDIT_S = 300 * PACE
"""Between two edits that tell no new state: GITHUB_TOKEN has 1,000 calls an hour."""
PATIENCE_S = 900 * PACE
"""How long a request that nothing can do without is tried again."""
LONGEST_PAUSE_S = 60 * PACE
LIMITED_S = 60 * PACE
"""First pause after a rate limit that does not say how long, as GitHub asks for."""
LARGEST = 8_000_000
PATH = "/nightbench/api/comparisons"

secrets: set[str] = set()
"""What no line of output and no comment may hold."""


# --- settings and output ------------------------------------------------------------------------


class Fault(Exception):
    """What ends this, or a part of it; status is that of an answer over HTTP."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class Busy(Fault):
    """What may go well later: after `after_s` where the other side said so."""

    def __init__(self, text: str, after_s: float | None = None, limited: bool = False) -> None:
        super().__init__(text)
        self.after_s = after_s
        self.limited = limited

    def pause_s(self, tries: int) -> float:
        """Seconds to wait after so many tries."""
        if self.after_s is not None:
            return self.after_s
        if self.limited:
            return LIMITED_S * 2.0**tries
        return min(LONGEST_PAUSE_S, PACE * 2.0 ** min(tries, 10)) * random.uniform(0.5, 1)


def setting(name: str, default: str = "") -> str:
    """Return a setting without white space around it."""
    return os.environ.get(f"NIGHTBENCH_{name}", "").strip() or default


def switched(name: str, default: str = "false") -> bool:
    """Return a setting that is true or false."""
    value = setting(name, default).lower()
    if value not in ("true", "false"):
        raise Fault(f'NIGHTBENCH_{name}: found "{value}"; expected true or false')
    return value == "true"


def secret(name: str) -> str:
    """Return a secret setting, which is never printed from here on."""
    value = setting(name)
    if not re.fullmatch(r"[\x20-\x7e]*", value):
        raise Fault(f"NIGHTBENCH_{name}: expected one line of ASCII; not shown here")
    secrets.add(value)
    return value


def seconds(name: str, default: str = "") -> float | None:
    """Return a duration in seconds; None where it is empty."""
    value = setting(name, default)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", value)
    if value and not found:
        raise Fault(f'NIGHTBENCH_{name}: found "{value}"; expected a duration: 90s, 45m, 3h')
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else None


def number(name: str, kind: Callable[[str], T], expected: str) -> T | None:
    """Return a number; None where it is empty."""
    value = setting(name)
    try:
        return kind(value) if value else None
    except ValueError:
        raise Fault(f'NIGHTBENCH_{name}: found "{value}"; expected {expected}') from None


def fraction(value: str) -> float:
    """Return "2%" or "0.02" as 0.02."""
    return float(value[:-1]) / 100 if value.endswith("%") else float(value)


def redacted(text: str) -> str:
    """Return a text without secrets; the longest first, should one hold another."""
    for each in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(each, "***")
    return text


def line(text: object) -> str:
    """Return a text as one line that holds no secret and that no runner takes for a command."""
    shown = "".join(each if each.isprintable() else " " for each in redacted(str(text)))
    return shown.replace("##[", "# [")[:2000]


def say(text: object) -> None:
    """Print a line."""
    print(f"nightbench: {line(text)}", flush=True)


def mark(level: str, text: object) -> None:
    """Print a line that GitHub shows beside the job too; level is error or warning."""
    if "GITHUB_ACTIONS" in os.environ:
        print(f"::{level} title=Nightbench::{line(text).replace('%', '%25')}", flush=True)
    else:
        say(f"{level}: {text}")


# --- HTTP ---------------------------------------------------------------------------------------


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: urllib would take the token along to another host."""

    def redirect_request(self, *_: Any) -> None:
        """Let the answer be an error."""


class Api:
    """JSON over HTTP at one address, with the headers that authorise it."""

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", base):
            raise Fault("an address (not shown here): expected https://HOST, no user or password")
        self.base = base.rstrip("/")
        self.headers = dict(headers)
        self.timeout_s = float(os.environ.get("NIGHTBENCH_CALL_S") or 30)
        self._opener = urllib.request.build_opener(_Stay)

    def call(self, method: str, path: str, body: Json = None) -> bytes:
        """Return what an address answers; a body is JSON, or a file as it is.

        Raises:
            Busy: it may answer later.
            Fault: it has refused.
        """
        where = f"{method} {self.base}{path}"
        headers = {
            **self.headers,
            "User-Agent": "nightbench-compare",
            "Content-Type": "application/json",
        }
        is_file = isinstance(body, Path)
        data: Any = None if body is None or is_file else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            try:
                with contextlib.ExitStack() as stack:
                    if is_file:
                        request.data = stack.enter_context(body.open("rb"))
                        request.add_header("Content-Type", "application/octet-stream")
                        request.add_header("Content-Length", str(body.stat().st_size))
                    answer = self._opener.open(request, timeout=self.timeout_s)
                    return bytes(stack.enter_context(answer).read(LARGEST))
            except urllib.error.HTTPError as error:
                with error:
                    content = error.read(LARGEST)
                    raise fault_of(where, error.code, dict(error.headers), content) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Fault(f"{where}: {reason}; SSL_CERT_FILE names a CA of your own") from None
            raise Busy(f"{where}: {reason or type(error).__name__}") from None

    def json(self, method: str, path: str, body: Json = None) -> Json:
        """Return what an address answers as JSON; as `call` else."""
        content = self.call(method, path, body)
        try:
            return json.loads(content)
        except ValueError:
            where = f"{method} {self.base}{path}"
            raise Fault(f"{where}: found no JSON; is the address right?") from None


def fault_of(where: str, status: int, headers: Mapping[str, str], content: bytes) -> Fault:
    """Return what an answer that is no success means."""
    headers = {name.lower(): value for name, value in headers.items()}
    said = content[:500].decode(errors="replace")
    with contextlib.suppress(ValueError):
        document = json.loads(content)
        if isinstance(document, dict):
            said = next((str(document[k]) for k in ("detail", "message") if document.get(k)), said)
    text = f"{where}: {status} {said}".rstrip()
    if 300 <= status < 400:
        return Fault(f"{where}: leads to {headers.get('location')}; expected the address itself")
    after_s = wait_of(headers, time.time())
    limited = status == 429 or (
        status == 403 and (after_s is not None or "rate limit" in said.lower())
    )
    if limited or status >= 500:
        return Busy(text, after_s, limited)
    return Fault(text, status)


def wait_of(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that an answer asks to wait; None where it does not say.

    Retry-After is seconds or a date; GitHub's x-ratelimit-reset and GitLab's ratelimit-reset are
    epoch seconds, and mean something where nothing remains.
    """
    after = (headers.get("retry-after") or "").strip()
    if after.isdecimal():
        return float(after)
    if after:
        with contextlib.suppress(ValueError, TypeError):  # TypeError: before Python 3.10
            return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - now)
    for prefix in ("x-", ""):
        reset = headers.get(f"{prefix}ratelimit-reset") or ""
        if headers.get(f"{prefix}ratelimit-remaining") == "0" and reset.isdecimal():
            return max(0.0, float(reset) - now) + 1
    return None


def patiently(action: Callable[[], T], until: float) -> T:
    """Return what an action returns, which is tried again while it is `Busy` and time is left."""
    tries = 0
    while True:
        try:
            return action()
        except Busy as busy:
            pause_s = busy.pause_s(tries)
            if time.monotonic() + pause_s > until:
                raise
            say(f"{busy}; again in {pause_s:.0f} s")
            time.sleep(pause_s)
            tries += 1


class Nightbench(Api):
    """The comparisons of one Nightbench, by a token or by a login that gives one."""

    def __init__(self) -> None:
        if not setting("URL"):
            raise Fault("NIGHTBENCH_URL: found nothing; expected the address of Airflow")
        super().__init__(setting("URL"), {})
        self._login = {"username": setting("USER"), "password": secret("PASSWORD")}
        self._authorise(secret("TOKEN"))
        if not all(self._login.values()) and not setting("TOKEN"):
            raise Fault(
                "NIGHTBENCH_TOKEN: found nothing; expected a token of Airflow, or NIGHTBENCH_USER "
                "and NIGHTBENCH_PASSWORD. The job of a fork's pull request gets no secrets"
            )

    def _authorise(self, token: str) -> None:
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: Json = None) -> bytes:
        """As of `Api`; logs in where there is no token yet, or it has expired."""
        can_log_in = all(self._login.values())
        if self.headers or not can_log_in:
            try:
                return super().call(method, path, body)
            except Fault as fault:
                if fault.status != 401 or not can_log_in:
                    raise
        try:
            content = super().call("POST", "/auth/token", self._login)
            token = str(json.loads(content)["access_token"])
        except (ValueError, KeyError, TypeError):
            raise Fault(f"POST {self.base}/auth/token: found no access_token") from None
        secrets.add(token)
        self._authorise(token)
        return super().call(method, path, body)


# --- where the change lies ----------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """What is compared, for people and for the queue: newer commits of a URL replace older ones."""

    url: str = ""
    commit: str = ""
    is_fork: bool = False


class Forge:
    """One comment on a change, and a status of its commit; here: none."""

    EDIT = ""
    """Method that edits a comment."""
    STATES: tuple[tuple[str, str], ...] = ()
    """Conclusion -> state of a commit, where they differ."""
    LONGEST = 0
    """Characters of a status."""

    change = Change()
    api: Api | None = None
    comments = ""
    """Path of the comments of the change; empty where it has none."""
    comment = ""
    """Path of a comment, before its number."""

    def __init__(self) -> None:
        self.name = setting("NAME", "nightbench")
        if not re.fullmatch(r"[A-Za-z0-9._/-]{1,60}", self.name):
            raise Fault(
                f'NIGHTBENCH_NAME: found "{self.name}"; expected 1 to 60 of A-Z a-z 0-9 . _ / -'
            )
        self._mark = re.compile(rf"<!-- nightbench-compare {re.escape(self.name)} (\d+) -->")
        self._comment_id: int | None = None
        self._me: tuple[object] | None = None

    def is_mine(self, comment: Json) -> bool:
        """Return whether this token's user wrote a comment: others may write the mark, too."""
        raise NotImplementedError

    def post_status(self, state: str, description: str, target_url: str) -> None:
        """Set the status of the commit."""
        raise NotImplementedError

    def keep_status(self, conclusion: str, headline: str, target_url: str) -> None:
        """Set the status of the commit to what a comparison concludes."""
        if self.api:
            text = line(headline)
            if len(text) > self.LONGEST:
                text = text[: self.LONGEST - 1] + "…"
            link = target_url if target_url.startswith("http") and len(target_url) < 256 else ""
            self.post_status(dict(self.STATES).get(conclusion, conclusion), text, link)

    def keep_comment(self, text: str, request_id: int) -> None:
        """Write the one comment on the change, unless a newer request has it.

        It is looked for each time, so that a call that is tried again writes no second one.
        """
        if not self.api or not self.comments:
            return
        body = f"<!-- nightbench-compare {self.name} {request_id} -->\n{redacted(text)}"
        found = self._found()
        if found is None:
            made = self.api.json("POST", self.comments, {"body": body})["id"]
            first = self._listed()
            if first is None or first["id"] == made:
                self._comment_id = made
                return
            # Another job has written the first one at the same time: there is to be one.
            self.api.call("DELETE", f"{self.comment}/{made}")
            found = first
        self._comment_id = found["id"]
        if self._request(found) <= request_id and found["body"] != body:
            self.api.call(self.EDIT, f"{self.comment}/{found['id']}", {"body": body})

    def _request(self, comment: Json) -> int:
        """Return which request wrote a comment last; 0 where it is not ours."""
        found = self._mark.match(str(comment.get("body") or ""))
        return int(found[1]) if found and self.is_mine(comment) else 0

    def _found(self) -> Json:
        assert self.api
        if self._comment_id is not None:
            try:
                return self.api.json("GET", f"{self.comment}/{self._comment_id}")
            except Fault as fault:
                if fault.status not in (404, 410):
                    raise
        return self._listed()

    def _listed(self) -> Json:
        assert self.api
        for page in range(1, 101):
            query = f"?per_page=100&page={page}&sort=asc"  # GitHub knows no other order
            listed: list[Json] = self.api.json("GET", self.comments + query)
            for comment in listed:
                if self._request(comment):
                    return comment
            if len(listed) < 100:
                break
        return None

    def _who(self, field: str) -> object:
        """Return who this token's user is; None where the API does not say."""
        assert self.api
        if self._me is None:
            try:
                self._me = (self.api.json("GET", "/user")[field],)
            except Busy:
                raise
            except Fault:  # the token of an app, as GITHUB_TOKEN: it is no user
                self._me = (None,)
        return self._me[0]


class GitHub(Forge):
    """A pull request, or the commit of a push where there is none."""

    EDIT = "PATCH"
    STATES = (("neutral", "success"),)
    LONGEST = 140

    def __init__(self) -> None:
        super().__init__()
        environment = os.environ
        repository = environment["GITHUB_REPOSITORY"]
        self._repo = f"/repos/{urllib.parse.quote(repository)}"
        self._as_check = switched("AS_CHECK")
        self._check_id: int | None = None
        if self._as_check:
            self.STATES = (("error", "failure"),)
        if token := secret("FORGE_TOKEN"):
            self.api = Api(
                environment.get("GITHUB_API_URL", "https://api.github.com"),
                {
                    "Authorization": f"Bearer {token}",
                    "Accept": "application/vnd.github+json",
                    "X-GitHub-Api-Version": "2022-11-28",
                },
            )
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
        run, pull = event.get("workflow_run"), event.get("pull_request")
        commit, head = environment.get("GITHUB_SHA", ""), None
        if run:
            commit, head = run["head_sha"], run["head_repository"]
            pull = patiently(lambda: self._pull_of(run), time.monotonic() + PATIENCE_S)
        elif pull:
            commit, head = pull["head"]["sha"], pull["head"]["repo"]
        # A fork that has been deleted has no repository any more.
        is_fork = bool(run or pull) and (head or {}).get("full_name") != repository
        if pull:
            url = str(pull["html_url"])
            self.comments = f"{self._repo}/issues/{int(pull['number'])}/comments"
        else:
            site = environment.get("GITHUB_SERVER_URL", "https://github.com")
            branch = run["head_branch"] if run else environment.get("GITHUB_REF", "")
            url = f"{site}/{repository}/commits/{urllib.parse.quote(str(branch))}"
        self.comment = f"{self._repo}/issues/comments"
        self.change = Change(url, commit, is_fork)

    def _pull_of(self, run: Json) -> Json:
        """Return the open pull request of a run; `pull_requests` of one from a fork is empty."""
        if self.api is None or not run["head_repository"]:
            return None
        head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
        query = urllib.parse.urlencode({"state": "open", "head": head})
        found = self.api.json("GET", f"{self._repo}/pulls?{query}")
        return found[0] if found else None

    def is_mine(self, comment: Json) -> bool:
        """Return whether this token's user, or for an app's token any app, wrote a comment."""
        author = comment.get("user") or {}
        me = self._who("login")
        return bool(author.get("login") == me if me else author.get("type") == "Bot")

    def post_status(self, state: str, description: str, target_url: str) -> None:
        """Set the status of the commit."""
        assert self.api
        if self._as_check:
            self._post_check(state, description, target_url)
            return
        body = {"state": state, "description": description, "context": self.name}
        if target_url:
            body["target_url"] = target_url
        self.api.call("POST", f"{self._repo}/statuses/{self.change.commit}", body)

    def _post_check(self, state: str, description: str, target_url: str) -> None:
        """Set the check of the commit, which may be neutral: a status may not."""
        assert self.api
        body = {"name": self.name, "output": {"title": description, "summary": description}}
        if target_url:
            body["details_url"] = target_url
        if state == "pending":
            body["status"] = "in_progress"
        else:
            body.update(status="completed", conclusion=state)
        if self._check_id is None:
            body["head_sha"] = self.change.commit
            made = self.api.json("POST", f"{self._repo}/check-runs", body)
            self._check_id = int(made["id"])
        else:
            self.api.call("PATCH", f"{self._repo}/check-runs/{self._check_id}", body)


class GitLab(Forge):
    """A merge request, or the commit of a branch's pipeline where there is none."""

    EDIT = "PUT"
    STATES = (
        ("pending", "running"),
        ("neutral", "success"),
        ("failure", "failed"),
        ("error", "failed"),
    )
    LONGEST = 255

    def __init__(self) -> None:
        super().__init__()
        environment = os.environ
        if token := secret("FORGE_TOKEN"):
            self.api = Api(environment["CI_API_V4_URL"], {"PRIVATE-TOKEN": token})
        here = environment["CI_PROJECT_ID"]
        target = environment.get("CI_MERGE_REQUEST_PROJECT_ID") or here
        source = environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID") or here
        # In a pipeline of merged results the job's own commit is one that nobody pushed.
        commit = (
            environment.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA") or environment["CI_COMMIT_SHA"]
        )
        if iid := environment.get("CI_MERGE_REQUEST_IID"):
            self.comments = self.comment = f"/projects/{target}/merge_requests/{int(iid)}/notes"
            url = f"{environment['CI_MERGE_REQUEST_PROJECT_URL']}/-/merge_requests/{int(iid)}"
        else:
            branch = urllib.parse.quote(environment["CI_COMMIT_REF_NAME"])
            url = f"{environment['CI_PROJECT_URL']}/-/commits/{branch}"
        self._statuses = f"/projects/{source}/statuses/{commit}"
        self._pipeline = int(environment["CI_PIPELINE_ID"]) if source == here else None
        self.change = Change(url, commit, source != target)

    def is_mine(self, comment: Json) -> bool:
        """Return whether this token's user wrote a comment."""
        return bool((comment.get("author") or {}).get("id", "") == self._who("id"))

    def post_status(self, state: str, description: str, target_url: str) -> None:
        """Set the status of the commit, in this pipeline where it has the commit."""
        assert self.api
        body: Json = {"state": state, "description": description, "name": self.name}
        if target_url:
            body["target_url"] = target_url
        if self._pipeline:
            body["pipeline_id"] = self._pipeline
        try:
            self.api.call("POST", self._statuses, body)
        except Fault as fault:
            # Before 18.3 GitLab refuses to set a state that the status has already.
            if fault.status != 400 or "Cannot transition status" not in str(fault):
                raise


def forge() -> Forge:
    """Return where the change of this job lies."""
    if "GITHUB_ACTIONS" in os.environ:
        return GitHub()
    return GitLab() if "GITLAB_CI" in os.environ else Forge()


# --- a job --------------------------------------------------------------------------------------


class Job:
    """One comparison from its request to its answer."""

    def __init__(self) -> None:
        self.nightbench = Nightbench()
        self.forge = forge()
        self.folder = Path(setting("OUTPUT", "nightbench-compare"))
        self.request_id = 0
        self._fails = switched("FAIL_ON_REGRESSION", "true")
        self._off: set[str] = set()
        self._told = ("", "")
        self._told_at = self._quiet_until = 0.0

    def body(self) -> Json:
        """Return the request; what is empty Nightbench decides."""
        change = self.forge.change
        given = {
            **{name: setting(name.upper()) for name in ("suite", "cluster")},
            "cases": re.split(r"[\s,]+", setting("CASES")) if setting("CASES") else None,
            "rounds": number("ROUNDS", int, "a whole number"),
            "min_effect": number("MIN_EFFECT", fraction, "2% or 0.02"),
            "budget_s": seconds("BUDGET"),
            "priority": setting("PRIORITY"),
            "note": setting("NOTE"),
            "change_url": change.url,
            "change_commit": change.commit,
            "fork": change.is_fork,
        }
        if switched("PROFILE"):
            given["profile"] = True
        return {name: value for name, value in given.items() if value not in (None, "")}

    def run(self) -> int:
        """Ask, follow and answer; return the exit code."""
        until = time.monotonic() + (seconds("TIMEOUT", "3h") or 0)
        body = self.body()
        if self.forge.api is None:
            mark("warning", "no token of GitHub or GitLab: neither comment nor status is written")
        try:
            soon = min(until, time.monotonic() + PATIENCE_S)
            body.update(a=self._build("A", soon), b=self._build("B", soon))
            state = patiently(lambda: self._ask(body), soon)
            profiled = True
            while state["conclusion"] == "pending":
                self._tell(state)
                late = time.monotonic() > until
                if late and profiled and state["profile"] == "after":
                    # The verdict is there, and waits for nothing but its profile.
                    profiled, until = False, time.monotonic() + PATIENCE_S
                    self._cancel(f"its job waits no longer than {setting('TIMEOUT', '3h')}", until)
                elif late:
                    raise Fault(f"not ended in {setting('TIMEOUT', '3h')}: {state['headline']}")
                else:
                    time.sleep(POLL_S)
                state = patiently(self._get, until)
            self._forget()
            return self._answer(state)
        except KeyboardInterrupt:
            for each in ENDING:
                signal.signal(each, signal.SIG_IGN)
            for api in filter(None, (self.nightbench, self.forge.api)):
                api.timeout_s = min(api.timeout_s, LAST_CALL_S)
            self.end("its job was cancelled")
            return 130
        except Fault as fault:
            self.end(str(fault), LONGEST_PAUSE_S)
            raise

    def _build(self, name: str, until: float) -> str:
        """Return a build as the queue takes it; a wheel that lies here is sent first."""
        line_of_build, is_file, pattern = setting(name).partition("=file:")
        if not is_file:
            return line_of_build
        found = glob.glob(pattern)
        if len(found) != 1:
            raise Fault(
                f'NIGHTBENCH_{name}: found {len(found)} files "{pattern}"; expected a wheel'
            )
        wheel, digest = Path(found[0]), hashlib.sha256()
        with wheel.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        say(f"{wheel.name} is sent, {wheel.stat().st_size} bytes")
        path = f"{PATH}/wheels/{urllib.parse.quote(wheel.name)}?sha256={digest.hexdigest()}"
        sent = patiently(lambda: self.nightbench.json("POST", path, wheel), until)
        return f"{line_of_build}={sent['build']}"

    def _path(self, rest: str = "") -> str:
        return f"{PATH}/{self.request_id}{rest}"

    def _ask(self, body: Json) -> Json:
        # Signals wait: a request whose number is not known could not be cancelled.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            state = self.nightbench.json("POST", PATH, body)
            self.request_id = int(state["request_id"])
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "request").write_text(f"{self.request_id}\n")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        return state

    def _get(self) -> Json:
        return self.nightbench.json("GET", self._path())

    def _text(self, name: str) -> str:
        return self.nightbench.call("GET", self._path(f"/{name}")).decode()

    def _forget(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self.folder / "request").unlink()

    def _cancel(self, why: str, until: float) -> bool:
        """Cancel the request; return whether it had not ended by itself."""
        body = {"why": line(why)}
        try:
            patiently(lambda: self.nightbench.call("POST", self._path("/cancel"), body), until)
        except Fault as fault:
            if fault.status != 409:
                raise
            return False
        say(f"request {self.request_id} is cancelled")
        return True

    def end(self, why: str, patience_s: float = 0) -> None:
        """Cancel what was asked for, if anything was, and say so on the change as far as may be."""
        if self.request_id:
            try:
                if self._cancel(why, time.monotonic() + patience_s):
                    self._forget()
                    self.forge.keep_comment(self._text("comment.md"), self.request_id)
            except Fault as fault:
                mark("warning", f"request {self.request_id}: not cancelled, or not told: {fault}")
        try:
            self.forge.keep_status("error", f"Not measured: {why}", "")
        except Fault as fault:
            mark("warning", f"the status cannot be written: {fault}")

    def _tell(self, state: Json) -> None:
        """Print where it stands, and write it on the change; that can be done later, too."""
        now, new = time.monotonic(), (state["state"], state["headline"])
        if new[0] == self._told[0] and (new == self._told or now < self._told_at + EDIT_S):
            return
        if now < self._quiet_until:
            return
        if new != self._told:
            say(f"request {self.request_id}: {state['headline']}")
        try:
            self._write(state)
        except Busy as busy:
            pause_s = busy.pause_s(0)
            self._quiet_until = now + pause_s
            say(f"{busy}; the change is told in {pause_s:.0f} s")
        else:
            self._told, self._told_at = new, now

    def _write(self, state: Json) -> None:
        """Write status and comment; where that is not allowed, once say so and leave it.

        Raises:
            Busy: they may be written later.
        """
        links = state["links"]
        concludes = state["conclusion"]
        if concludes == "failure" and not self._fails:
            concludes = "neutral"

        def comment() -> None:
            self.forge.keep_comment(self._text("comment.md"), self.request_id)

        def status() -> None:
            self.forge.keep_status(concludes, state["headline"], links.get("page", links["self"]))

        for what, write in (("comment", comment), ("status", status)):
            if what in self._off:
                continue
            try:
                write()
            except Busy:
                raise
            except Fault as fault:
                self._off.add(what)
                mark("warning", f"the {what} cannot be written: {fault}")

    def _answer(self, state: Json) -> int:
        """Leave the answer with the change, in files, the job's summary and outputs."""
        say(f"request {self.request_id}: {state['headline']}")
        until = time.monotonic() + PATIENCE_S
        for name in ("comment.md", "junit.xml", "result.json"):
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).unlink()
            try:
                text = patiently(functools.partial(self._text, name), until)
            except Fault as fault:
                if name == "result.json" and fault.status == 404:
                    continue  # it could not be measured
                raise
            (self.folder / name).write_text(redacted(text), encoding="utf-8")
        try:
            patiently(lambda: self._write(state), until)
        except Busy as busy:
            mark("warning", f"the change is not told: {busy}")
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with open(summary, "a", encoding="utf-8") as file:
                file.write((self.folder / "comment.md").read_text(encoding="utf-8") + "\n")
        outputs = {
            "request-id": self.request_id,
            **{name: state[name] or "" for name in ("state", "conclusion", "verdict", "headline")},
            "page": state["links"].get("page", state["links"]["self"]),
        }
        if path := os.environ.get("GITHUB_OUTPUT"):
            with open(path, "a", encoding="utf-8") as file:
                file.writelines(f"{name}={line(value)}\n" for name, value in outputs.items())
        code = {"error": 2, "failure": int(self._fails)}.get(state["conclusion"], 0)
        if state["conclusion"] in ("error", "failure"):
            mark("error" if code else "warning", state["headline"])
        return code


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    for each in ENDING:
        signal.signal(each, signal.default_int_handler)
    try:
        job = Job()
        if arguments != ["cancel"]:
            return job.run()
        with contextlib.suppress(FileNotFoundError):
            job.request_id = int((job.folder / "request").read_text())
            job.end("its job was cancelled")
        return 0
    except Fault as fault:
        mark("error", fault)
    except KeyboardInterrupt:
        return 130
    except Exception:  # nobody expected it: the traceback, but no secret that an error may quote
        print(redacted(traceback.format_exc()), file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
