"""Starts the agent of a job directory: as a daemon, or as the task of a batch job."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any, Mapping

from nodeside.agent_daemon import ENDING_SIGNALS, reap_after, serve
from nodeside.files import AgentError, probe_writable, read_json
from nodeside.job import NodeJob
from nodeside.locks import lock_file
from nodeside.processes import AGENT_MARK, AGENT_NODE, become_subreaper
from nodeside.sweep import sweep

TASK_VARIABLE = "SLURMD_NODENAME"
"""Variable by which Slurm names the task of a job."""


def start(folder: str, node: str, agent_file: str, sweep_root: str | None = None) -> dict[str, Any]:
    """Start an agent as a daemon, which outlives this call and its SSH channel.

    Args:
        folder: the job directory.
        node: this node in job.json.
        agent_file: path of agent.py.
        sweep_root: `environments.root`, to first end processes whose agent is gone; or None.

    Returns:
        {"pid", "started", "swept": [pid]}; started is False if an agent already serves this
        job directory.
    """
    agent_file = os.path.abspath(agent_file)
    job = NodeJob(folder, node, os.path.dirname(agent_file))
    swept = sweep(None, True, sweep_root)["killed"] if sweep_root is not None else []
    probe_writable(os.path.join(job.folder, "control"), "environments.job_root")
    lock = lock_file(os.path.join(job.folder, "agent.lock"))
    if lock is None:
        known = read_json(os.path.join(job.folder, "agent.json")) or {}
        return {"pid": known.get("pid"), "started": False, "swept": swept}
    receive, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                become_subreaper()  # before there is an agent that could die; exec keeps it
                agent = os.fork()
                os.write(report, str(agent).encode() if agent else b"")
                _become(job, agent_file, lock, agent)
        except BaseException:
            os.write(2, "nightbench agent: {}".format(traceback.format_exc()).encode())
        finally:
            os._exit(1)
    os.close(report)
    os.close(lock)  # the agent holds it
    os.waitpid(child, 0)
    pid = int(os.read(receive, 32).decode() or "0")
    return {"pid": pid, "started": True, "swept": swept}


def _become(job: NodeJob, agent_file: str, lock: int, agent: int) -> None:
    """Run the agent, or wait for the agent with this pid, until this process ends.

    If the controller has set the agent's mark on this process, a fork of it has the mark too,
    and no other interpreter needs to start.
    """
    if os.environ.get(AGENT_MARK) != job.job_id or os.environ.get(AGENT_NODE) != job.node:
        if agent:
            _exec_verb(job, agent_file, None, "reap", "--pid", str(agent))
        _exec_verb(job, agent_file, lock, "serve", "--lock-fd", str(lock))
    if agent:
        _detach(job, None)
        status = reap_after(job.folder, job.node, agent_file, agent)
    else:
        _detach(job, lock)
        status = serve(job.folder, job.node, agent_file, lock)
    sys.stdout.flush()
    os._exit(status)


def is_served(folder: str) -> bool:
    """Return whether an agent serves a job directory."""
    held = lock_file(os.path.join(folder, "agent.lock"))
    if held is None:
        return True
    os.close(held)
    return False


def serve_as_task(folder: str, nodes: Mapping[str, str], agent_file: str) -> None:
    """Become the agent's parent in the foreground; a batch system owns and ends this process.

    Args:
        folder: the job directories of all nodes, each below its node's name.
        nodes: task, as the batch system names it -> node.
        agent_file: path of agent.py.

    Raises:
        AgentError: the task is not one of `nodes`, or another agent serves the job directory.
    """
    task = os.environ.get(TASK_VARIABLE)
    if task not in nodes:
        raise AgentError(
            "found {!r} as this task's name ({}); expected one of {}".format(
                task, TASK_VARIABLE, ", ".join(sorted(nodes))
            ),
            "start it as a task of a Slurm step",
        )
    node = nodes[str(task)]
    job = NodeJob(os.path.join(folder, node), node, os.path.dirname(os.path.abspath(agent_file)))
    probe_writable(os.path.join(job.folder, "control"), "environments.root")
    lock = lock_file(os.path.join(job.folder, "agent.lock"))
    if lock is None:
        raise AgentError("another agent serves {}".format(job.folder), "end that job first")
    become_subreaper()
    # Both processes unblock them once they have handlers: a batch system may send one before.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    agent = os.fork()
    if agent == 0:
        _exec_verb(job, agent_file, lock, "serve", "--lock-fd", str(lock))
    _exec_verb(job, agent_file, None, "reap", "--pid", str(agent), "--forward")


def _exec_verb(job: NodeJob, agent_file: str, keep: int | None, verb: str, *words: str) -> None:
    """Replace this process by a verb; exec puts the agent's mark into /proc/PID/environ.

    Args:
        job: the job.
        agent_file: path of agent.py.
        keep: the descriptor that the verb inherits in addition to the standard ones.
        verb: the verb.
        words: its options.
    """
    _detach(job, keep)
    if keep is not None:
        os.set_inheritable(keep, True)
    environment = {**os.environ, AGENT_MARK: job.job_id, AGENT_NODE: job.node}
    argv = [sys.executable, os.path.abspath(agent_file), verb, job.folder, "--node", job.node]
    os.execve(sys.executable, argv + list(words), environment)


def _detach(job: NodeJob, keep: int | None) -> None:
    """Leave the starter's folder, streams and descriptors, except for the descriptor `keep`."""
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDONLY)
    out = os.open(
        os.path.join(job.folder, "agent.out"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
    )
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.closerange(3, keep or 4096)
    if keep is not None:
        os.closerange(keep + 1, 4096)
