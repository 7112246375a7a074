"""Images of one layer, as `ctr images import` takes them: nothing is fetched from a registry."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_image(target: Path, name: str, files: Mapping[str, Path]) -> None:
    """Write an image from files and folders: path in the image -> path here."""
    layer = target.with_suffix(".layer")
    with tarfile.open(layer, "w") as archive:
        for inside, source in files.items():
            archive.add(source, inside)
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    named = f"{hashlib.sha256(config).hexdigest()}.json"
    listed = [{"Config": named, "RepoTags": [name], "Layers": [layer.name]}]
    with tarfile.open(target, "w") as archive:
        for path, content in ((named, config), ("manifest.json", json.dumps(listed).encode())):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        archive.add(layer, layer.name)
    layer.unlink()
