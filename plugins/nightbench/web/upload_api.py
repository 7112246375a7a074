"""The API that receives wheels for comparisons; it stores them without examining them."""

import hashlib
import tempfile
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from nightbench.config.compare_builds import MOST_BYTES, WHEEL
from nightbench.spool import SpoolError
from nightbench.web.api_model import ApiModel
from nightbench.web.guard import refuse_unmeant
from nightbench.web.run_api import OpenSpool

MOST_STORED_BYTES = 8 * MOST_BYTES
"""Limit for all wheels together; they are removed after a month."""
LONGEST_NAME = 200
NAME: dict[str, Any] = {"pattern": f"^{WHEEL.pattern}$", "maxLength": LONGEST_NAME}
_IN_MEMORY = 1024 * 1024


class UploadedWheel(ApiModel):
    """A wheel that was sent."""

    build: str
    """Text after `LINE=` in a request."""
    sha256: str
    size: int
    """In bytes."""


def uploading(spool: OpenSpool, base_url: str) -> Callable[..., Coroutine[Any, Any, UploadedWheel]]:
    """Return the handler of the API that receives wheels."""

    async def receive(
        request: Request,
        name: Annotated[str, Path(json_schema_extra=NAME)],
        sha256: Annotated[str, Query(pattern="^[0-9a-f]{64}$")],
    ) -> UploadedWheel:
        """Keep a wheel under its digest; one that was sent before is kept from now on."""
        refuse_unmeant(request.headers, base_url)
        if not WHEEL.fullmatch(name) or len(name) > LONGEST_NAME:
            raise HTTPException(
                422, f'name: found "{name[:80]}"; expected the name of a wheel, *.whl'
            )
        uploads = spool().uploads
        if await run_in_threadpool(uploads.size) > MOST_STORED_BYTES:
            raise HTTPException(507, f"The stored wheels already exceed {MOST_STORED_BYTES} bytes.")
        digest, size = hashlib.sha256(), 0
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as beside:
            try:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > MOST_BYTES:
                        raise HTTPException(413, f"More than {MOST_BYTES} bytes were sent.")
                    digest.update(chunk)
                    await run_in_threadpool(beside.write, chunk)
            except OSError as error:
                raise HTTPException(507, f"The wheel cannot be stored: {error.strerror}") from error
            if digest.hexdigest() != sha256:
                raise HTTPException(
                    422, f"sha256: found {digest.hexdigest()} of {size} bytes; expected {sha256}"
                )
            beside.seek(0)
            try:
                await run_in_threadpool(uploads.keep, sha256, name, beside)
            except SpoolError as error:
                raise HTTPException(507, str(error)) from error
        return UploadedWheel(build=f"upload:{sha256}/{name}", sha256=sha256, size=size)

    return receive
