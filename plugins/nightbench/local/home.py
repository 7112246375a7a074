"""The state folder of a deployment on one machine (`NIGHTBENCH_HOME`): its paths and secrets."""

import base64
import json
import os
import secrets
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nightbench.config import locations
from nightbench.core.atomic_files import atomic_file
from nightbench.core.errors import UserError


class Home:
    """The state folder and the paths in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = self.root / "run"
        """Pid files of the services."""
        self.logs = self.root / "logs"
        """Logs: one file for each service, and Airflow's own below `airflow/`."""
        self.airflow_logs = self.logs / "airflow"
        """Task and DAG-processor logs, in Airflow's own layout."""
        self.airflow = self.root / "airflow"
        """AIRFLOW_HOME."""
        self.postgres = self.root / "postgres"
        """The data directory of PostgreSQL."""
        self.cluster = self.root / "cluster"
        """The local cluster: its keys, `server.json`, and a home folder for each node."""
        self.backups = self.root / "backups"
        """Archives of the warehouse as it was before an upgrade."""
        self.spool = self.root / "spool"
        """Runs as they were measured, before and after they are loaded."""
        self.reports = self.root / "reports"
        """Reports, tables and plots as files."""
        self.tools = self.root / "tools"
        """Tools for people: a link to `psql`."""
        self.secrets_file = self.root / "secrets.json"
        """Generated passwords and keys (0600)."""
        self.ports_file = self.root / "ports.json"
        """The ports that were chosen, so that addresses stay the same."""
        self.connections_file = self.root / "connections.json"
        """Airflow Connections that `up` writes (0600)."""
        self.passwords_file = self.airflow / "passwords.json"
        """Passwords of the Airflow UI's users (0600), as the simple auth manager reads them."""
        self.pgpass_file = self.root / "pgpass"
        """Passwords for `psql` and other PostgreSQL clients (0600)."""
        self.lock_file = self.root / "stack.lock"
        """Locked while `up` or `down` works."""

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
                f"{self.root}: cannot be used as the state folder ({error.strerror}). Use another "
                "one: NIGHTBENCH_HOME=/some/folder"
            ) from error


def find_home() -> Home:
    """Return the home of this deployment (`locations.home_folder`)."""
    return Home(locations.home_folder())


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
    with atomic_file(path) as new:
        new.touch(0o600)
        new.write_text(text, encoding="utf-8")


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
        raise UserError(f"{path}: found permissions {mode:o}; expected 600. Run: chmod 600 {path}")
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        read = Secrets(**known)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path}: not readable as secrets ({type(error).__name__}). Restore the file, or "
            f"remove the file and {home.postgres} (this loses the history) and start again."
        ) from error
    if asdict(read).keys() - known.keys():
        # Written by an earlier version: a secret that it lacks is created once.
        write_private(path, json.dumps(asdict(read), indent=1) + "\n")
    return read
