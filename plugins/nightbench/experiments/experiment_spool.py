"""Files of all experiments: the request, what must stay the same, and requests to stop.

run.json       the request and the identity; written before the first launch
cancel.json    a request to stop, for the process that measures; removed when it is resumed
"""

from collections.abc import Mapping
from typing import Any

from nightbench.core.errors import UserError
from nightbench.core.model import RunKind
from nightbench.spool import RunSpool, read_json, utc_now, write_json

Document = dict[str, Any]

DRILL = "drill"
"""Kind of drills of the detector; the other kinds are those of `ExperimentKind`."""


def schema_of(kind: str) -> str:
    """Return the schema of the run.json of a kind of experiment."""
    return f"nightbench.{kind}/1"


def store_request(
    folder: RunSpool,
    kind: str,
    request: Mapping[str, Any],
    identity: Mapping[str, Any],
    requested_by: str,
    **initial: Any,
) -> None:
    """Write run.json before anything is launched; it may be written again to resume.

    The request is what the caller needs to plan the same again, and may change; the identity, as
    JSON, must not. Later writes leave `requested_by` and the keys of `initial` as they are.

    Raises:
        UserError: it was begun with another identity.
    """
    known = folder.run() or {}
    was = known.get("identity", identity)
    differs = sorted(key for key in {*was, *identity} if was.get(key) != identity.get(key))
    if differs:
        raise UserError(
            f"{folder.run_id}: {', '.join(differs)} changed since the experiment began, so its "
            "earlier and later launches cannot be compared. Start a new experiment"
        )
    run_kind = RunKind.DRILL if kind == DRILL else RunKind.CONFIRM
    head = {"schema": schema_of(kind), "run_kind": str(run_kind), "started_at": utc_now()}
    head |= {"requested_by": requested_by, **initial}
    folder.save_run({**head, **known, "request": dict(request), "identity": dict(identity)})


def read_request(folder: RunSpool, kind: str) -> Document:
    """Return run.json, whose `request` is what `store_request` was given.

    Raises:
        UserError: there is no such experiment.
    """
    document = folder.run()
    found = (document or {}).get("schema", "")
    if document is not None and found.startswith("nightbench.") and found != schema_of(kind):
        other = found.removeprefix("nightbench.").partition("/")[0]
        raise UserError(f'{kind}: found "{folder.run_id}", of the kind {other}; expected a {kind}')
    if document is None or found != schema_of(kind):
        parent = folder.folder.parent
        have = sorted(path.name for path in parent.iterdir()) if parent.exists() else []
        raise UserError(
            f'{kind}: the spool has no "{folder.run_id}"; it has {", ".join(have) or "none"}'
        )
    return document


def resumable_request(folder: RunSpool, kind: str) -> Document:
    """Return run.json of an experiment that no other process measures.

    Raises:
        UserError: there is no such experiment, or another process measures it.
    """
    document = read_request(folder, kind)
    if folder.is_controlled():
        raise UserError(f"{folder.run_id} is being measured by another process")
    return document


class MeasurementStopped(UserError):
    """A user or a limit stopped it; its measurements so far are kept."""


def request_cancel(folder: RunSpool, reason: str) -> None:
    """Request that the process which measures an experiment stops before its next launch."""
    write_json(folder.folder / "cancel.json", {"reason": reason, "at": utc_now()})


def withdraw_cancel(folder: RunSpool) -> None:
    """Forget such a request, because the experiment is resumed."""
    (folder.folder / "cancel.json").unlink(missing_ok=True)


def is_cancelled(folder: RunSpool) -> bool:
    """Return whether it was cancelled, and not resumed since."""
    return bool((folder.folder / "cancel.json").exists())


def check_cancel(folder: RunSpool) -> None:
    """Refuse another launch of an experiment that was cancelled.

    Raises:
        MeasurementStopped: it was cancelled.
    """
    document = read_json(folder.folder / "cancel.json")
    if document is not None:
        raise MeasurementStopped(f"{folder.run_id}: {document['reason']}")
