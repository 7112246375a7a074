"""The job as this node sees it: job.json, paths, and the processes to start."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from typing import Any, Mapping

from traffic import interface_of

from nodeside.binding import beside_devices
from nodeside.files import AgentError, EventLog, read_json, read_text
from nodeside.processes import AGENT_MARK, AGENT_NODE, JOB_MARK, NODE_MARK

NEIGHBOURS = {"action": "record", "wait_s": 600.0, "cpu_share": 0.1, "gpu": True}
"""Policy for foreign work of a job that does not state one."""
_COMPILE_CACHES = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class NodeJob:
    """job.json seen from one node.

    Args:
        folder: the job directory of this node.
        node: name of the node in the job.
        code: folder of the shipped code.

    Raises:
        AgentError: job.json is absent, is no job/1 or does not name the node.
    """

    def __init__(self, folder: str, node: str, code: str) -> None:
        self.folder = os.path.abspath(folder)
        self.node = node
        self.code = code
        self.path = os.path.join(self.folder, "job.json")
        document = read_json(self.path)
        if document is None:
            raise AgentError(
                "no readable job.json in {}".format(self.folder),
                "the controller writes it before it starts the agent: prepare the job again",
            )
        if document.get("schema") != "nightbench.job/1":
            raise AgentError(
                "{}: schema is {!r}, expected 'nightbench.job/1'".format(
                    self.path, document.get("schema")
                ),
                "the agent and the controller are of different versions: ship the code again",
            )
        self.document: dict[str, Any] = document
        try:
            self._take(document)
        except (KeyError, TypeError) as error:
            raise AgentError(
                "{}: does not match contract/job.schema.json: {!r} is missing".format(
                    self.path, error.args[0]
                )
            ) from error

    def _take(self, document: dict[str, Any]) -> None:
        node = self.node
        names = [entry["name"] for entry in document["nodes"]]
        if node not in names:
            raise AgentError(
                "{}: node {!r} does not belong to this job (nodes: {})".format(
                    self.path, node, ", ".join(names)
                )
            )
        self.here: dict[str, Any] = document["nodes"][names.index(node)]
        self.job_id: str = document["job_id"]
        self.limits: dict[str, float] = document["limits"]
        self.processes: list[dict[str, Any]] = [
            entry for entry in document["processes"] if entry["node"] == node
        ]
        self.port_names: list[str] = [
            entry["name"] for entry in document["ports"] if entry["node"] == node
        ]
        self.cpus: list[int] = list(self.here["cpus"])
        asked = [entry["device"] for entry in self.processes if entry["device"] is not None]
        self.devices: list[str] = [str(x) for x in self.here["devices"] or sorted(set(asked))]
        """GPUs that the job uses on this node, by index or UUID."""
        self.neighbours: dict[str, Any] = dict(NEIGHBOURS, **(document.get("neighbours") or {}))
        self.locks_devices = document.get("lock", "node") == "devices"
        self.stack_tool: str | None = document.get("stack_tool")
        self._beside: dict[str, list[int]] = {}
        self._compiled: str | None = None
        self.log = EventLog(os.path.join(self.folder, "agent.jsonl"))

    @property
    def python(self) -> str:
        """Return the framework's interpreter on this node; the agent's own if none is given."""
        return read_text(os.path.join(self.folder, "python")) or sys.executable

    def repeat_folder(self, repeat: int) -> str:
        """Return the folder of a repeat: repeats/001 and so on."""
        return os.path.join(self.folder, "repeats", "{:03d}".format(repeat))

    def bind(self, fingerprint: Mapping[str, Any]) -> None:
        """Choose the cores near each process's GPU, unless the cluster or the case sets cores."""
        case = self.document["case"]
        if self.document.get("binding", "numa") == "none" or case.get("cpus"):
            return
        devices = {p["name"]: str(p["device"]) for p in self.processes if p["device"] is not None}
        found = beside_devices(devices, fingerprint, self._cores(), self.locks_devices)
        if all(len(cores) >= (case.get("threads") or 1) for cores in found.values()):
            self._beside = found

    def keep_compiled(self, fingerprint: Mapping[str, Any]) -> None:
        """Create the folder for code that frameworks compile, `compiled/DIGEST` next to the jobs.

        Jobs with the same build, packages, hardware, driver and kernel share it. An exported plan
        keeps no such folder, because its own folder is moved.
        """
        below = os.path.join(os.sep, "jobs", self.job_id, self.node)
        if not self.folder.endswith(below):
            return
        build = [fingerprint[name] for name in ("id", "build", "packages")]
        digest = hashlib.sha256(json.dumps([self.python, *build], sort_keys=True).encode())
        root = self.folder[: -len(below)]
        self._compiled = os.path.join(root, "compiled", digest.hexdigest()[:12])
        os.makedirs(self._compiled, exist_ok=True)
        os.utime(self._compiled)  # `clean` reads it as the last use

    def cores_of(self, name: str) -> list[int]:
        """Return the cores of a process; empty if it may use all."""
        each = self.document["case"].get("cpus")
        if each is None:
            return self._beside.get(name, self.cpus)
        place = [entry["name"] for entry in self.processes].index(name)
        return self._cores()[place * each : (place + 1) * each]

    def _cores(self) -> list[int]:
        return self.cpus or sorted(os.sched_getaffinity(0))

    def check_cpus(self) -> None:
        """Check that every core of `cpus` exists, and that there are enough cores for the case.

        Raises:
            AgentError: a core does not exist, or there are too few.
        """
        allowed = os.sched_getaffinity(0)
        absent = [number for number in self.cpus if number not in allowed]
        if absent:
            raise AgentError(
                "node {}: cores {} of `cpus` are not available (there are {})".format(
                    self.node, absent, sorted(allowed)
                ),
                "correct `cpus` of this node in the cluster's YAML",
            )
        each, have = self.document["case"].get("cpus") or 0, len(self._cores())
        if each * len(self.processes) > have:
            raise AgentError(
                "node {}: {} processes need {} cores each, and the node has {}".format(
                    self.node, len(self.processes), each, have
                ),
                "give the case more nodes or a smaller `cpus`",
            )

    def commands(self, ports: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return name, argv and env of each process of this node, from launch.py of the line.

        Raises:
            AgentError: launch.py is absent or broken, or forgets a process.
        """
        line = self.document["framework"]["line"]
        path = os.path.join(self.code, "frameworks", line, "launch.py")
        spec = importlib.util.spec_from_file_location("nightbench_launch", path)
        if spec is None or spec.loader is None or not os.path.exists(path):
            raise AgentError("the shipped code has no {}".format(path))
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            made: list[dict[str, Any]] = list(
                module.processes(self.document, self.node, dict(ports), self.python, self.code)
            )
            names = sorted(entry["name"] for entry in made)
        except (Exception, SystemExit) as error:
            # Code of the line: whatever it raises ends this repeat, not the agent.
            raise AgentError("{}: {}: {}".format(path, type(error).__name__, error)) from error
        wanted = sorted(entry["name"] for entry in self.processes)
        if names != wanted:
            raise AgentError(
                "{} starts {}, the job plans {} on node {}".format(path, names, wanted, self.node)
            )
        return made

    def environment(
        self, process: Mapping[str, Any], launch_env: Mapping[str, str], repeat: int
    ) -> dict[str, str]:
        """Return a process's variables: agent, defaults, job, node, role, launch.py; later wins."""
        document = self.document
        folder = self.repeat_folder(repeat)
        hidden = (AGENT_MARK, AGENT_NODE)
        env = {key: value for key, value in os.environ.items() if key not in hidden}
        sharing = max(1, len(self.processes))
        case = document["case"]
        threads = case.get("threads") or case.get("cpus") or max(1, len(self.cpus) // sharing)
        env.update({name: str(threads) for name in _THREAD_VARIABLES})
        if self._compiled:
            for variable, name in _COMPILE_CACHES.items():
                env.setdefault(variable, os.path.join(self._compiled, name))
        # Gloo would take the address of the host's name, which may be a loopback's.
        interface = self.here["interface"] or interface_of(self.here["data_address"])
        if interface:
            env["GLOO_SOCKET_IFNAME"] = interface
        env.update(
            {
                "NIGHTBENCH_JOB_FILE": self.path,
                "NIGHTBENCH_PROCESS": process["name"],
                "NIGHTBENCH_REPEAT_DIR": folder,
                "NIGHTBENCH_PROCESS_DIR": os.path.join(folder, process["name"]),
                "NIGHTBENCH_CODE": self.code,
                "PYTHONUNBUFFERED": "1",
            }
        )
        env.update(document["env"])
        env.update(self.here["env"])
        env.update(document["role_env"].get(process["role"], {}))
        env.update(launch_env)
        # Last: no configuration may remove the mark by which the agent finds its processes.
        env.update({JOB_MARK: self.job_id, NODE_MARK: self.node})
        return env
