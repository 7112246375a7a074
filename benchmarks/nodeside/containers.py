"""Environments that are images: found or pulled, wrapped as a prefix, and ended by labels.

<root>/envs/<line>-image-<digest>/bin/python        runs in_container.py, next to it
<root>/envs/<line>-image-<digest>/container.json    engine, image, mounts, options
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from typing import Any, Sequence

from nodeside.files import file_digest, probe_writable, read_json, utc_now, write_json, write_text
from nodeside.in_container import APPTAINER, JOB_LABEL, NODE_LABEL

PULL_S = 3600.0
ANSWER_S = 60.0
SETTINGS = "container.json"


def image(options: argparse.Namespace) -> dict[str, Any]:
    """Find an image, or pull it, and make the prefix that runs it.

    Returns:
        {"python", "env", "built"}, or {"unavailable", "hint"} if the engine, the image or its
        interpreter is not available here.

    Raises:
        AgentError: the folder cannot be written.
    """
    engine = shutil.which(options.engine)
    if engine is None:
        return {
            "unavailable": "{} is no program on this node".format(options.engine),
            "hint": "Install it, or name another one as environments.engine of the cluster",
        }
    if os.path.basename(engine) == APPTAINER:
        found = _apptainer_image(engine, options.image, options.root)
    else:
        found = _docker_image(engine, options.image)
    if "unavailable" in found:
        return found
    settings = {
        "engine": engine,
        "image": found["image"],
        "python": options.interpreter,
        "options": options.option,
        "mounts": [options.root, *([options.job_root] if options.job_root else []), *options.mount],
    }
    text = json.dumps(settings, sort_keys=True)
    name = "{}-image-{}".format(options.line, hashlib.sha256(text.encode()).hexdigest()[:12])
    env = os.path.join(options.root, "envs", name)
    probe_writable(os.path.join(env, "bin"))
    write_json(os.path.join(env, SETTINGS), settings)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_container.py")
    with open(source) as stream:
        write_text(os.path.join(env, "in_container.py"), stream.read())
    python = os.path.join(env, "bin", "python")
    words = " ".join(map(shlex.quote, (sys.executable, os.path.join(env, "in_container.py"))))
    write_text(python, '#!/bin/sh\nexec {} "$@"\n'.format(words))
    os.chmod(python, 0o755)
    tried = _run([python, "-c", "import sys; print(sys.version_info[0])"], ANSWER_S)
    if tried.returncode != 0:
        return {
            "unavailable": "{} in {}: {}".format(
                options.interpreter, options.image, _end(tried.stderr) or "it prints nothing"
            ),
            "hint": "See environments.image_python and environments.engine_options of the cluster",
        }
    # `clean` reads it as the environment's last use.
    write_json(os.path.join(env, ".ok.json"), {"image": options.image, "at": utc_now()})
    return {"python": python, "env": env, "built": found["pulled"], "seconds": 0.0}


def _docker_image(engine: str, image: str) -> dict[str, Any]:
    """Return {"image", "pulled"}, or {"unavailable", "hint"}."""
    if ask(engine, "image", "inspect", "--format", "{{.Id}}", image).returncode == 0:
        return {"image": image, "pulled": False}
    if "@" not in image:
        return {
            "unavailable": "{} has no image {}".format(engine, image),
            "hint": "Load it on the node: an image without a registry is named by its id",
        }
    return _pulled(engine, image, ask(engine, "pull", image, timeout_s=PULL_S))


def _apptainer_image(engine: str, image: str, root: str) -> dict[str, Any]:
    """Return the same as `_docker_image`; the image is the site's file, or made from a registry."""
    name, _, digest = image.rpartition("@sha256:")
    if name.startswith("/"):
        try:
            found = file_digest(name)
        except OSError as error:
            return {"unavailable": str(error), "hint": "Put the image there, or name another file"}
        if found != digest:
            return {
                "unavailable": "{} has sha256 {}, expected {}".format(name, found, digest),
                "hint": "The file was replaced: name the new digest, or restore the old file",
            }
        return {"image": name, "pulled": False}
    path = os.path.join(root, "images", digest + ".sif")
    if os.path.exists(path):
        return {"image": path, "pulled": False}
    probe_writable(os.path.dirname(path))
    new = "{}.{}".format(path, os.getpid())
    found = _pulled(engine, path, ask(engine, "pull", new, "docker://" + image, timeout_s=PULL_S))
    if "image" in found:
        os.replace(new, path)
    return found


def _pulled(engine: str, image: str, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode == 0:
        return {"image": image, "pulled": True}
    return {
        "unavailable": "{} pull {}: {}".format(engine, image, _end(done.stderr)),
        "hint": "Pull the image once by hand as the node's user",
    }


def remove_of(python: str, job: str, node: str) -> list[str]:
    """Remove the containers of one node of a job; return their ids.

    Args:
        python: interpreter of the job; of an environment that is no image there are none.
        job: its id.
        node: the node.
    """
    settings = read_json(os.path.join(os.path.dirname(os.path.dirname(python)), SETTINGS))
    if settings is None:
        return []
    labels = ["{}={}".format(JOB_LABEL, job), "{}={}".format(NODE_LABEL, node)]
    return _remove(settings["engine"], labels, None)


def remove_below(root: str, job: str) -> list[str]:
    """Remove the containers of all jobs whose id is this or begins with it as whole path parts."""
    paths = glob.glob(os.path.join(glob.escape(root), "envs", "*", SETTINGS))
    engines = {(read_json(path) or {}).get("engine") for path in paths}
    return [each for engine in engines if engine for each in _remove(engine, [JOB_LABEL], job)]


def _remove(engine: str, labels: Sequence[str], job: str | None) -> list[str]:
    if os.path.basename(engine) == APPTAINER:
        return []  # its containers end with their processes
    filters = [word for label in labels for word in ("--filter", "label=" + label)]
    found = ask(engine, "ps", "--all", "--quiet", *filters).stdout.split()
    if job is not None:
        wanted = job.rstrip("/")
        label = '{{index .Config.Labels "' + JOB_LABEL + '"}}'
        of = {
            each: ask(engine, "inspect", "--format", label, each).stdout.strip() for each in found
        }
        found = [e for e in found if of[e] == wanted or of[e].startswith(wanted + "/")]
    if found:
        ask(engine, "rm", "--force", *found)
    return found


def ask(engine: str, *words: str, timeout_s: float = ANSWER_S) -> subprocess.CompletedProcess[str]:
    """Run a command of the engine; a command that does not answer in time counts as failed."""
    return _run([engine, *words], timeout_s)


def _run(words: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(list(words), 1, "", "no answer within its time")


def _end(text: str) -> str:
    return "; ".join(text.strip().splitlines()[-3:])[-500:]
