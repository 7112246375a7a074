"""Command lines of Slurm's programs, the script of a gang's job, and what the programs print.

Pure; `slurm_launcher` runs them on the login node.
"""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from nightbench.core.model import JobSpec, SlurmPolicy

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
RUNNING = frozenset(
    {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
"""States in which a job holds its nodes. Every other one is an end."""

ENVIRONMENT = "HOME,USER,LOGNAME,PATH,LANG"
"""Variables of the login session that a job gets, beside Slurm's own."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm shows it."""

    number: int
    state: str
    """`PENDING`, `RUNNING`, `COMPLETED`, `TIMEOUT`, …"""
    why: str = ""
    """Why it waits, or how it ended: `Resources`, `NonZeroExitCode`."""

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.state in WAITING or self.state in RUNNING

    @property
    def is_running(self) -> bool:
        """Whether it holds its nodes."""
        return self.state in RUNNING

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why not in ("", "None") else ""
        return f"Slurm job {self.number}: {self.state}{why}"


def job_name(job_id: str) -> str:
    """Return the name of a gang's job, made of run, case and generation."""
    return f"nightbench/{job_id}"


def script(job: JobSpec, python: str, agent: str, folder: str) -> str:
    """Return the script of a gang's job: one step with one agent on each node.

    Args:
        job: the gang's job.
        python: interpreter of the agents.
        agent: path of agent.py.
        folder: the job directories of all nodes.
    """
    nodes = [word for node in job.nodes for word in ("--node", f"{node.host}={node.name}")]
    step = ["srun", "--overlap", f"--nodes={len(job.nodes)}", f"--ntasks={len(job.nodes)}"]
    # An agent that ends although no controller told it to takes the others and the job with it.
    step += ["--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=1", "--wait=0"]
    words = [*step, python, agent, "task", folder, *nodes]
    return f"#!/bin/sh\nexec {shlex.join(words)}\n"


def submit_words(policy: SlurmPolicy, job: JobSpec, folder: str) -> list[str]:
    """Return the words that submit a script, which is their input; they print the job's number.

    Args:
        policy: the cluster's.
        job: the gang's job.
        folder: for the job's own output.
    """
    words = ["sbatch", *policy.options, "--parsable", f"--job-name={job_name(job.job_id)}"]
    words += [f"--nodes={len(job.nodes)}", f"--nodelist={','.join(n.host for n in job.nodes)}"]
    # A second job of the same name never runs beside the first one, whoever submitted it.
    words += ["--ntasks-per-node=1", "--exclusive", "--no-requeue", "--dependency=singleton"]
    words += [f"--signal=B:USR1@{policy.warning_s}", f"--export={ENVIRONMENT}"]
    words.append(f"--output={posixpath.join(folder, 'job-%j.out')}")
    if policy.partition:
        words.append(f"--partition={policy.partition}")
    if policy.account:
        words.append(f"--account={policy.account}")
    if policy.time_limit_s:
        words.append(f"--time={math.ceil(policy.time_limit_s / 60)}")
    return words


def queue_words(name: str) -> list[str]:
    """Return the words that list the user's jobs of a name, ended ones too while Slurm has them."""
    return ["squeue", "--me", "--noheader", "--states=all", f"--name={name}", "--format=%A|%T|%r"]


def cancel_words(name: str) -> list[str]:
    """Return the words that end the user's jobs of a name."""
    return ["scancel", "--me", f"--name={name}"]


def accounting_words(number: int) -> list[str]:
    """Return the words that print the end of a job from Slurm's accounting."""
    words = ["sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}"]
    return [*words, "--format=JobIDRaw,State,ExitCode"]


def on_node_words(number: int, host: str) -> list[str]:
    """Return the words before a command that runs on one node of a running job."""
    words = ["srun", f"--jobid={number}", "--overlap", "--nodes=1", "--ntasks=1"]
    return [*words, f"--nodelist={host}", "--cpu-bind=none", "--quiet"]


def read_jobs(output: str) -> list[SlurmJob]:
    """Return the jobs that `squeue` or `sacct` printed, the newest first.

    Raises:
        ValueError: a line is not what was asked for.
    """
    found = {}
    for line in output.splitlines():
        if not line.strip():
            continue
        number, state, why = line.strip().split("|", 2)
        # sacct says who: `CANCELLED by 1000`.
        found[int(number)] = SlurmJob(int(number), state.split()[0], why)
    return sorted(found.values(), key=lambda job: -job.number)


def newest(jobs: Iterable[SlurmJob]) -> SlurmJob | None:
    """Return the job that a gang's agents run in: an active one, else the last that ended."""
    listed = sorted(jobs, key=lambda job: (job.is_running, job.is_active, job.number))
    return listed[-1] if listed else None
