"""pip's configuration on the node, as uv's variables (uv does not read pip's)."""

from __future__ import annotations

import configparser
import os
from typing import Mapping

_KEYS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
_OLD_NAMES = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}


def pip_settings(env: Mapping[str, str], home: str) -> dict[str, str]:
    """Return pip's settings: key as in pip.conf -> value; later files and PIP_* win."""
    files = ["/etc/pip.conf", "/etc/xdg/pip/pip.conf"]
    files += [os.path.join(home, ".pip", "pip.conf")]
    config_home = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    files += [os.path.join(config_home, "pip", "pip.conf")]
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        files = []
    elif env.get("PIP_CONFIG_FILE"):
        files.append(env["PIP_CONFIG_FILE"])
    found: dict[str, str] = {}
    for path in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(path)
        except (configparser.Error, UnicodeDecodeError, OSError):
            continue  # pip would report its own file; here it is ignored
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update({k: v for k, v in parser.items(section) if k in _KEYS})
    for key in _KEYS:
        value = env.get("PIP_" + key.upper().replace("-", "_"))
        if value:
            found[key] = value
    return found


def uv_environment(env: Mapping[str, str], home: str) -> dict[str, str]:
    """Return the UV_* (and SSL_CERT_FILE) variables to set, without those that are set already."""
    made: dict[str, str] = {}
    for key, value in pip_settings(env, home).items():
        name = _KEYS[key]
        if env.get(name) or env.get(_OLD_NAMES.get(name, name)):
            continue
        words = value.split()
        if not words:
            continue
        if key == "no-index" and value.strip().lower() not in ("1", "true", "yes", "on"):
            continue
        made[name] = ("," if key == "find-links" else " ").join(words)
    if "UV_INDEX" in made and not env.get("UV_INDEX_STRATEGY"):
        # pip takes the best version of all indexes; the locks' hashes keep that safe.
        made["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return made
