"""Passwords and keys of one home: made once, kept in a file that only its owner can read."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import asdict, dataclass, field

from nightbench.core.errors import UserError
from nightbench.local.paths import Home, write_private


def _password() -> str:
    return secrets.token_urlsafe(18)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")


@dataclass(frozen=True)
class Secrets:
    """What the services of one home share. `repr` shows no value."""

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


def load_or_create(home: Home) -> Secrets:
    """Return the secrets of this home; the first call makes them.

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
        # Made by an earlier version: what it lacks is made now, and once.
        write_private(path, json.dumps(asdict(read), indent=1) + "\n")
    return read
