"""Environment variables that files may set: none that is secret, none that falsifies a measurement.

The variables that a file sets are stored with every run and in job files on the nodes, where every
user of the node may read them.
"""

import re
from typing import Any

from pydantic import ValidationInfo

from nightbench.core.complaints import describe

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|\AAWS_|(?:TOKEN|KEY)S?(?:_|\d|\Z)|_PAT\Z",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{30,})"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"
    r"|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."
    r"|://[^/@\s:]*:[^/@\s]+@"
)
_LONGEST = 32_768

_REFUSED = {
    r"NIGHTBENCH_": "belongs to the launcher; expected another name",
    r"(?:LD_PRELOAD|LD_AUDIT|BASH_ENV|ENV"
    r"|PYTHON(?:PATH|HOME|STARTUP|USERBASE|INSPECT|BREAKPOINT|PLATLIBDIR))\Z": (
        "loads other code into the measured processes than the named build; put it into an "
        "environment of the site (environments.paths), or into `builds`"
    ),
    r"(?:PATH|HOME|USER|LOGNAME|SHELL|PWD|VIRTUAL_ENV)\Z": (
        "belongs to the node: environments are found by their paths, not by this variable; "
        "set it in the SSH user's own environment on the node where it must differ"
    ),
}
"""Names -> why a file must not set them."""


def name(value: str, info: ValidationInfo) -> str:
    """The name of a variable that may stand in a file.

    The context's `launcher_env` holds the variables that framework lines' launchers own.
    """
    if not _NAME.match(value):
        raise ValueError(
            f"found {describe(value[:100])}; expected the name of an environment variable"
        )
    if _SECRET_NAME.search(value):
        raise ValueError(
            "looks like a secret, and files are no place for one (the environment is stored with "
            "every run); put it into the environment of the nodes or an Airflow Connection"
        )
    owners = (info.context or {}).get("launcher_env", {}).get(value)
    if owners:
        raise ValueError(
            f"is set for each process by the launcher of {' and '.join(owners)}, from the case and "
            "the cluster's nodes; expected no such variable in a file"
        )
    for names, reason in _REFUSED.items():
        if re.match(names, value):
            raise ValueError(reason)
    return value


def value(found: Any) -> Any:
    """The text of a variable; a whole number is taken as its digits."""
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    if not isinstance(found, str):
        raise ValueError(f"found {describe(found)}; expected text: put it in quotes")
    if "\0" in found:
        raise ValueError("found a NUL character; no environment can hold one")
    if len(found) > _LONGEST:
        raise ValueError(f"found {len(found)} characters; expected no more than {_LONGEST}")
    if _SECRET_VALUE.search(found):
        raise ValueError(
            "its value looks like a secret (a key, a token, or a URL with a password). The "
            "environment is stored with every run, so a secret must not be in a file. Put the "
            "secret into the environment of the nodes or an Airflow Connection"
        )
    return found
