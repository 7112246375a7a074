"""Calling the agent's verbs: one command, one JSON document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from nightbench.gang.shipping import remote_failure
from nightbench.gang.transport import OnLine, Transport


async def call_agent(
    transport: Transport,
    python: str,
    agent: str,
    verb: str,
    *arguments: str,
    on_stderr: OnLine | None = None,
    timeout_s: float | None = 120.0,
) -> dict[str, Any]:
    """Run `agent.py VERB` on a node; returns the document that it prints.

    Args:
        transport: the node.
        python: its interpreter for the agent.
        agent: path of agent.py there.
        verb: what to do.
        arguments: words after the verb.
        on_stderr: hears its progress lines.
        timeout_s: None for verbs that may take long.

    Raises:
        RemoteFailure: it failed, or printed no JSON; `DiskFull` where that was the reason.
    """
    done = await transport.run(
        [python, agent, verb, *arguments], on_stderr=on_stderr, timeout_s=timeout_s
    )
    document = _document(done.stdout)
    if document is None:
        said = done.stderr or done.stdout
        raise remote_failure(transport, f"run `agent.py {verb}` (exit {done.exit})", said)
    if done.exit != 0:
        raise remote_failure(transport, f"run `agent.py {verb}`", _said(document).encode())
    return document


def _said(document: dict[str, Any]) -> str:
    """What the agent says of its failure: the error, its log on the node, the cure."""
    said = str(document.get("error") or document)
    if document.get("log"):
        said += f" (log on the node: {document['log']})"
    return f"{said}. {document['hint']}" if document.get("hint") else said


def _document(stdout: bytes) -> dict[str, Any] | None:
    """The last line that is a JSON object: login scripts of some sites print before it."""
    for line in reversed(stdout.decode(errors="replace").strip().splitlines()):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            return document
    try:
        whole = json.loads(stdout or b"null")
    except ValueError:
        return None
    return whole if isinstance(whole, dict) else None


def words(flag: str, values: Sequence[str]) -> list[str]:
    """A repeated option."""
    return [word for value in values for word in (flag, value)]
