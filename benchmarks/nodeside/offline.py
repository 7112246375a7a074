"""`agent.py run DIR`: measures an exported plan, without SSH and without the control plane.

DIR/export.json                  the run and its cases in their order
DIR/code/                        this tree
DIR/jobs/<case_id>/              a case, see nodeside/offline_case.py
"""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

from nodeside.files import AgentError, read_json
from nodeside.offline_case import SCHEMA, OfflineCase


def run(folder: str, python: str, case: str | None, agent_file: str) -> dict[str, Any]:
    """Measure all cases that are not measured yet; return the run and case_id -> repeats' statuses.

    Args:
        folder: the folder that `nightbench offline export` wrote.
        python: interpreter of the framework.
        case: measure only this case; None: all cases.
        agent_file: path of agent.py.

    Raises:
        AgentError: the folder has no plan, or a case cannot be measured here.
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
    found = {}
    for number, case_id in enumerate(cases, start=1):
        if case is not None and case_id != case:
            continue
        where = "case {} of {}, {}".format(number, len(cases), case_id)
        measured = OfflineCase(os.path.join(folder, "jobs", case_id), where)
        if not measured.is_measured():
            measured.measure(os.path.abspath(interpreter), agent_file)
        found[case_id] = measured.statuses()
    return {"run_id": export["run_id"], "cases": found}
