"""`agent.py run DIR`: measures an exported plan, without SSH and without the control plane.

    DIR/export.json                  the run and its cases in their order
    DIR/code/                        this tree
    DIR/jobs/<case_id>/              a case, see nodeside/offline_case.py

A case of one node is measured on the machine where this runs. A case of several is measured where
this runs on several machines that share DIR: the one of the first node leads.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import Any, Sequence

from nodeside.files import AgentError, read_json
from nodeside.members import Member, MemberServer
from nodeside.offline_case import SCHEMA, OfflineCase, say

POLL_S = 1.0
STOP_S = 60.0
"""Time in which an agent that is told to stop has ended its processes."""


def run(
    folder: str, python: str, node: str | None, case: str | None, agent_file: str
) -> dict[str, Any]:
    """Measure all cases that have not been; return the run and case_id -> statuses of repeats.

    Args:
        folder: what `nightbench offline export` wrote.
        python: interpreter of the framework.
        node: which of the plan's nodes this machine is. Where None, the pod's place in an indexed
            Job of Kubernetes says it, or each case has but one node.
        case: measure this case alone; all of them where None.
        agent_file: path of agent.py.

    Raises:
        AgentError: the folder holds no plan, or a case cannot be measured here.
        KeyboardInterrupt: by Ctrl-C or SIGTERM; no process is left on this machine.
    """
    path = os.path.join(folder, "export.json")
    export = read_json(path) or {}
    if export.get("schema") != SCHEMA:
        raise AgentError(
            "{}: schema is {!r}, expected {!r}".format(path, export.get("schema"), SCHEMA),
            "name the folder that `nightbench offline export` wrote",
        )
    cases = list(export["cases"])
    if case is not None and case not in cases:
        raise AgentError(
            "--case: found {!r}; expected one of {}".format(case, ", ".join(cases)),
        )
    interpreter = shutil.which(python)
    if interpreter is None:
        raise AgentError(
            "--python: found {!r}, which is no program here".format(python),
            "name the interpreter that has the framework",
        )
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found, nodes = {}, set()
    for number, case_id in enumerate(cases, start=1):
        if case is not None and case_id != case:
            continue
        where = "case {} of {}, {}".format(number, len(cases), case_id)
        measured = OfflineCase(os.path.join(folder, "jobs", case_id), where)
        nodes.update(measured.nodes)
        mine = _node_of(measured.nodes, node, case_id)
        if mine is not None:
            if not measured.is_measured():
                _take_part(measured, mine, os.path.abspath(interpreter), agent_file)
            found[case_id] = measured.statuses()
    if not found:
        raise AgentError(
            "--node: found {!r}; expected one of {}".format(node, ", ".join(sorted(nodes)))
        )
    return {"run_id": export["run_id"], "cases": found}


def _node_of(nodes: Sequence[str], named: str | None, case_id: str) -> str | None:
    """Return which node of a case this machine is; None where it is none of them.

    Raises:
        AgentError: nothing says which.
    """
    if named is not None:
        return named if named in nodes else None
    index = os.environ.get("JOB_COMPLETION_INDEX")
    if index is not None and index.isdigit() and int(index) < len(nodes):
        return nodes[int(index)]
    if len(nodes) == 1:
        return nodes[0]
    raise AgentError(
        "{}: runs on the nodes {}".format(case_id, ", ".join(nodes)),
        "run the same command on each, in a folder that they share, with --node NAME",
    )


def _take_part(case: OfflineCase, node: str, python: str, agent_file: str) -> None:
    """Measure a case as its lead, or serve another of its nodes until it is measured."""
    member = Member(case.node_folder(node), node, python, agent_file)
    if len(case.nodes) == 1:
        case.measure(member)
        return
    here = case.document["nodes"][case.nodes.index(node)]
    low, high = here["port_range"]
    server = MemberServer(member, here["data_address"], (low, high))
    server.serve_in_background()
    try:
        if node == case.nodes[0]:
            case.measure(member)
        else:
            say(case.where, "serves node {} until the lead has measured it".format(node), "\n")
            _serve(case, member)
    finally:
        server.shutdown()
        server.server_close()


def _serve(case: OfflineCase, member: Member) -> None:
    try:
        while not case.is_measured():
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        # A second Ctrl-C must not interrupt the clean-up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        member.signal(signal.SIGTERM)
        raise
    finally:
        until_s = time.monotonic() + STOP_S
        while member.is_running() and time.monotonic() < until_s:
            time.sleep(POLL_S / 5)
        signal.signal(signal.SIGINT, signal.default_int_handler)
