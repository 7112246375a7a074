"""The state folder of a deployment on one machine (`NIGHTBENCH_HOME`): its paths and secrets."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nightbench.core.errors import UserError

REPO = Path(__file__).resolve().parents[3]
"""The root of the checkout (the package is installed editable, in place)."""

MARK = "NIGHTBENCH_STACK"
"""Environment variable that every process started by the stack carries; its value is the home."""


@dataclass(frozen=True)
class Home:
    """The state folder and the paths in it."""

    root: Path

    @property
    def run(self) -> Path:
        """Pid files of the services."""
        return self.root / "run"

    @property
    def logs(self) -> Path:
        """Logs: one file for each service, and Airflow's own below `airflow/`."""
        return self.root / "logs"

    @property
    def airflow_logs(self) -> Path:
        """Task and DAG-processor logs, in Airflow's own layout."""
        return self.logs / "airflow"

    @property
    def airflow(self) -> Path:
        """AIRFLOW_HOME."""
        return self.root / "airflow"

    @property
    def postgres(self) -> Path:
        """The data directory of PostgreSQL."""
        return self.root / "postgres"

    @property
    def cluster(self) -> Path:
        """The local cluster: its keys, `server.json`, and a home folder for each node."""
        return self.root / "cluster"

    @property
    def backups(self) -> Path:
        """Archives of the warehouse as it was before an upgrade."""
        return self.root / "backups"

    @property
    def spool(self) -> Path:
        """Runs as they were measured, before and after they are loaded."""
        return self.root / "spool"

    @property
    def reports(self) -> Path:
        """Digests, tables and figures as files."""
        return self.root / "reports"

    @property
    def tools(self) -> Path:
        """Tools for people: a link to `psql`."""
        return self.root / "tools"

    @property
    def secrets_file(self) -> Path:
        """Generated passwords and keys (0600)."""
        return self.root / "secrets.json"

    @property
    def ports_file(self) -> Path:
        """The ports that were chosen, so that addresses stay the same."""
        return self.root / "ports.json"

    @property
    def connections_file(self) -> Path:
        """Airflow Connections that `up` writes (0600)."""
        return self.root / "connections.json"

    @property
    def passwords_file(self) -> Path:
        """Passwords of the Airflow UI's users (0600), as the simple auth manager reads them."""
        return self.airflow / "passwords.json"

    @property
    def pgpass_file(self) -> Path:
        """Passwords for `psql` and other PostgreSQL clients (0600)."""
        return self.root / "pgpass"

    @property
    def lock_file(self) -> Path:
        """Held while `up` or `down` works."""
        return self.root / "stack.lock"

    def make(self) -> None:
        """Create the folders; the root is for its owner only.

        Raises:
            UserError: the folder cannot be made or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o700)
            for folder in (
                *(self.run, self.logs, self.airflow_logs, self.airflow),
                *(self.cluster, self.spool, self.reports, self.tools),
            ):
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self.root}: cannot be used as the state folder ({error.strerror}). "
                "Name another one: NIGHTBENCH_HOME=/some/folder"
            ) from error


def find_home(environ: Mapping[str, str] | None = None) -> Home:
    """Return the home that `NIGHTBENCH_HOME` names, else `.nightbench` in the checkout."""
    named = (os.environ if environ is None else environ).get("NIGHTBENCH_HOME")
    return Home(Path(named or REPO / ".nightbench").expanduser().absolute())


def venv_bin() -> Path:
    """Return the `bin` folder of the environment that runs this code."""
    return Path(sys.prefix) / "bin"


def uv_env() -> dict[str, str]:
    """Return the `UV_*` variables that pip's configuration on this machine amounts to.

    `make setup` wrote them; what is set in the environment by hand is not among them.
    """
    path = Path(sys.prefix) / "uv-env.json"
    if not path.is_file():
        return {}
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return {str(name): str(value) for name, value in loaded.items()}


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, never readable in between."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:
        os.fchmod(descriptor, 0o600)
        stream.write(text)
    os.replace(beside, path)


def _password() -> str:
    return secrets.token_urlsafe(18)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")


@dataclass(frozen=True)
class Secrets:
    """Passwords and keys that the services of one home share; `repr` shows none of them."""

    postgres: str = field(default_factory=_password, repr=False)
    airflow: str = field(default_factory=_password, repr=False)
    nightbench_owner: str = field(default_factory=_password, repr=False)
    nightbench_loader: str = field(default_factory=_password, repr=False)
    nightbench_reader: str = field(default_factory=_password, repr=False)
    nightbench_triage: str = field(default_factory=_password, repr=False)
    ui_admin: str = field(default_factory=_password, repr=False)
    ui_viewer: str = field(default_factory=_password, repr=False)
    fernet_key: str = field(default_factory=_fernet_key, repr=False)
    # Airflow signs its tokens with HS512: 64 bytes and more (RFC 7518, 3.2).
    jwt_secret: str = field(default_factory=lambda: secrets.token_hex(48), repr=False)
    api_secret_key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)


def load_or_create_secrets(home: Home) -> Secrets:
    """Return the secrets of this home; the first call creates them.

    Raises:
        UserError: the file is damaged, or others may read it.
    """
    path = home.secrets_file
    if not path.exists():
        made = Secrets()
        write_private(path, json.dumps(asdict(made), indent=1) + "\n")
        return made
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        raise UserError(f"{path}: mode is {mode:o}, expected 600. Run: chmod 600 {path}")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        read = Secrets(**known)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path}: not readable as secrets ({type(error).__name__}). Restore it, or remove it "
            f"together with {home.postgres} (this loses the history) and start again."
        ) from error
    if asdict(read).keys() - known.keys():
        # Written by an earlier version: a secret that it lacks is created once.
        write_private(path, json.dumps(asdict(read), indent=1) + "\n")
    return read
