"""The plan of a run: which cases, resolved to jobs for a cluster, in the order of measuring. Pure.

`resolve` takes one case to its job; `make_plan` takes all cases of a suite.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from nightbench.core.budget import CaseHistory, NightPlan
from nightbench.core.capabilities import broken, refusal_of, untried_because
from nightbench.core.code_digest import file_digest
from nightbench.core.errors import UserError
from nightbench.core.hours import Hours
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    JobSpec,
    Limits,
    Node,
    PlannedCase,
    PlannedPair,
    Process,
    Protocol,
    Reason,
    ReasonCode,
    ReferenceLosses,
    RegressionPolicy,
    Route,
    Run,
    RunKind,
    Suite,
    WorkloadInfo,
    digest_of,
)
from nightbench.core.model_flops import flops_per_unit, step_flops_per_unit, tokens_per_unit
from nightbench.core.placement import nodes_for, place
from nightbench.core.variants import (
    Refusal,
    image_of,
    prefix_of,
    variant_of,
    with_nodes_for,
)


def select(
    cases: Iterable[Case],
    *,
    frameworks: Sequence[str] = (),
    workloads: Sequence[str] = (),
    strategies: Sequence[str] = (),
    case_ids: Sequence[str] = (),
) -> tuple[Case, ...]:
    """Return the cases that match every selection; an empty selection matches all.

    Raises:
        UserError: a name matches no case, or nothing is left.
    """
    chosen = tuple(cases)
    for axis, names in (
        ("framework", frameworks),
        ("workload", workloads),
        ("strategy", strategies),
        ("case_id", case_ids),
    ):
        have = sorted({str(getattr(case, axis)) for case in chosen})
        unknown = sorted(set(names) - set(have))
        if unknown:
            raise UserError(
                f'{axis}: found "{unknown[0]}", of which the selection has no case; '
                f"expected one of {', '.join(have)}"
            )
        if names:
            chosen = tuple(case for case in chosen if str(getattr(case, axis)) in names)
    if not chosen:
        raise UserError("the selection contains no case")
    return chosen


def build_of(line: str, suite: Suite, cluster: Cluster, catalog: Catalog) -> Build:
    """Say which build of a line a suite runs on a cluster.

    The suite's own build comes first, then a prefix that the cluster's nodes were prepared with,
    then the line's lock.

    Raises:
        UserError: the line has no variant for the cluster, or a wheel is gone.
    """
    variant = variant_of(catalog.frameworks[line], cluster, suite.builds)
    if isinstance(variant, Refusal):
        raise UserError(f"suite {suite.name}: {variant.message}")
    image = image_of(line, cluster, suite.builds)
    if image is not None:
        return Build(line, variant, "image", None, image, image.rpartition("sha256:")[2])
    prefix = prefix_of(line, cluster, suite.builds)
    if prefix is not None:
        return Build(line, variant, "path", None, prefix)
    build = suite.builds.get(line)
    if build is None:
        return Build(line, variant)
    digest = build.digest
    if build.source == "wheel" and build.location and digest is None:
        digest = file_digest(Path(build.location))
    return dataclasses.replace(build, variant=variant, digest=digest)


def definition_digest(case: Case, workload: WorkloadInfo, protocol: Protocol) -> str:
    """Digest of what a case's name means: a change starts a new segment of its history.

    It covers the axes, the workload's definition, the parameters of the case's scale and the
    protocol, and not our own code.
    """
    return digest_of(
        {
            "case": case.defining_axes(),
            "workload": workload.digest,
            "params": dict(workload.scales.get(case.scale, {})),
            "seed": workload.seed,
            # A new option must not start new histories for users who do not set it.
            "protocol": {k: v for k, v in vars(protocol).items() if v is not None},
        }
    )


def nodes_of(case: Case, suite: Suite, cluster: Cluster, catalog: Catalog) -> tuple[Node, ...]:
    """Return the nodes on which a case of a suite is measured, lead first; see `nodes_for`."""
    framework = catalog.frameworks[case.framework]
    return nodes_for(case, with_nodes_for(case, framework, cluster, suite.builds))


def resolve(
    case: Case,
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    run_id: str,
    *,
    deadline: datetime | None = None,
    past: CaseHistory | None = None,
) -> JobSpec:
    """Turn a case of a suite into the job that its gang runs on a cluster.

    The suite's environment is stronger than the cluster's; a node's own and a role's are laid over
    both on the node. No repeat is started that cannot end by the deadline. `past` says how long
    repeats take.

    Raises:
        UserError: framework, workload or cluster cannot run the case.
    """
    catalog = catalog.with_commands(suite)
    refusal = refusal_of(case, catalog, cluster, suite.builds, untried=suite.untried)
    if refusal is not None:
        raise UserError(f"suite {suite.name}: {case.case_id}: {refusal.message}")
    workload = catalog.workloads[case.workload]
    there = with_nodes_for(case, catalog.frameworks[case.framework], cluster, suite.builds)
    nodes, processes = place(case, there, catalog.roles_of(case))
    digest = definition_digest(case, workload, suite.protocol)
    return JobSpec(
        run_id=run_id,
        case=case,
        generation=0,
        cluster=cluster.name,
        build=build_of(case.framework, suite, cluster, catalog),
        protocol=suite.protocol,
        nodes=nodes,
        processes=processes,
        unit=workload.unit,
        workload_params=workload.params_of(case),
        seed=workload.seed,
        env={**cluster.env, **suite.env},
        role_env=_role_env(suite, cluster),
        limits=Limits(repeat_s=suite.repeat_timeout_s, progress_s=suite.progress_timeout_s),
        code_digest=catalog.code_digest,
        definition_digest=digest,
        environments=cluster.environments,
        neighbours=cluster.neighbours,
        lock=cluster.lock,
        binding=cluster.binding,
        transport=cluster.transport,
        data_path=cluster.data.get(case.data),
        link_command=cluster.link_command,
        deadline=deadline,
        expected_repeat_s=past.of(digest).repeat_s if past else None,
    )


@dataclass(frozen=True, kw_only=True)
class CaseExpectations:
    """Expected values with which the results of a case are compared."""

    processes: tuple[Process, ...]
    """All processes that were planned, parameter servers included."""
    units_per_trainer_step: int | None
    """None if the run finds its batch."""
    parameters: int | None = None
    """Trainable parameters of the workload at this scale, if it fixes them."""
    converges: bool = False
    """The workload's loss is proved to decrease within the protocol at this scale."""
    from_log: bool = False
    """Its values are read from the log of a command, which proves less than a rank does."""
    losses: ReferenceLosses | None = None
    """Losses of the first steps that the workload states for the case's scale and batch."""
    has_dropout: bool = False
    rounding_grows: bool = False
    """Rounding changes the losses of the first steps: see `WorkloadInfo.steady_batch_size`."""
    has_experts: bool = False
    """Layers choose between experts for each token."""
    step_flops_per_unit: float | None = None
    """FLOPs of products in a trainer's step for one unit; None if its workload states none."""


@dataclass(frozen=True)
class CasePlan(CaseExpectations):
    """The data of one planned case for the ingest."""

    planned: PlannedCase

    @classmethod
    def of(
        cls, job: JobSpec, workload: WorkloadInfo, planned: PlannedCase | None = None
    ) -> CasePlan:
        """Return what the results of a job are checked against."""
        params = job.workload_params
        return cls(
            planned=planned or PlannedCase(job.case, job.build, job.definition_digest, job.unit),
            processes=job.processes,
            # Some workloads have one network for all scales, others a count for each scale.
            parameters=params.get("parameters", workload.parameters),
            converges=bool(params.get("converges", False)),
            units_per_trainer_step=job.units_per_trainer_step,
            from_log=job.from_log,
            losses=workload.losses and workload.losses.of(job.case),
            has_dropout=bool(params.get("dropout")),
            rounding_grows=workload.increases_rounding(job.case),
            has_experts="experts" in params,
            step_flops_per_unit=step_flops_per_unit(workload, params),
        )

    @property
    def left_out(self) -> Reason | None:
        """Why the night had no room for it."""
        return self.planned.left_out


@dataclass(frozen=True)
class RunPlan:
    """A run as it was planned; `jobs` is empty if it was read back from the spool."""

    run: Run
    owner: str
    protocol: Protocol
    policy: RegressionPolicy
    channels: tuple[str, ...]
    """Where alerts go, as the suite names them: an Apprise URL, or a Connection that holds one."""
    cluster: Cluster
    cases: tuple[CasePlan, ...]
    """In the order in which they are measured; those that are left out come last."""
    jobs: tuple[JobSpec, ...] = ()
    """Jobs of the cases that are neither left out nor unavailable."""
    unavailable: Mapping[str, Reason] = field(default_factory=dict)
    """case_id -> what is wrong with the folders that it is run from."""
    routes: tuple[Route, ...] = ()
    """Whose alerts are whose; the first that matches counts."""
    zone: str = "UTC"
    """By whose clock nights begin and end: of the suite's window, or of the cluster's."""
    pairs: tuple[PlannedPair, ...] = ()
    """Cases that the night also measures with a reference build, in their order."""


def new_run_id(suite: str, now: datetime) -> str:
    """Readable, sortable and unique: `demo-20261121T010203-9f3a`."""
    return f"{suite}-{now.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def _role_env(suite: Suite, cluster: Cluster) -> dict[str, dict[str, str]]:
    return {
        role: {**cluster.role_env.get(role, {}), **suite.role_env.get(role, {})}
        for role in sorted({*cluster.role_env, *suite.role_env})
    }


def _environment_of(suite: Suite, cluster: Cluster) -> dict[str, str]:
    """Return the variables of `Run.env`."""
    of_roles = {
        f"{role}.{name}": value
        for role, env in _role_env(suite, cluster).items()
        for name, value in env.items()
    }
    return {**cluster.env, **suite.env, **of_roles}


def make_plan(
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    *,
    run_kind: RunKind,
    requested_by: str = "",
    run_id: str | None = None,
    started_at: datetime | None = None,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
    night: NightPlan | None = None,
    deadline: datetime | None = None,
    past: Mapping[str, CaseHistory] | None = None,
) -> RunPlan:
    """Resolve all cases of a suite for a cluster.

    Without a `night` all cases are run in the order of the file. No repeat is started that cannot
    end by the deadline [default: the night's end]. `past` says how long repeats take.

    Raises:
        UserError: the cluster cannot run a case, or a build is not available.
    """
    started_at = started_at or datetime.now(UTC)
    catalog = catalog.with_commands(suite)
    run = Run(
        run_id=run_id or new_run_id(suite.name, started_at),
        suite=suite.name,
        cluster=cluster.name,
        run_kind=run_kind,
        started_at=started_at,
        requested_by=requested_by,
        dag_id=dag_id,
        dag_run_id=dag_run_id,
        code_digest=catalog.code_digest,
        env=_environment_of(suite, cluster),
    )
    cases = {case.case_id: case for case in suite.cases}
    order = [entry.case_id for entry in night.entries] if night else list(cases)
    end = deadline or (night.window.end if night else None)
    known = past or {}
    given = (suite, cluster, catalog, run.run_id)
    jobs = [resolve(cases[name], *given, deadline=end, past=known.get(name)) for name in order]
    left_out = night.left_out if night else {}
    unavailable = {
        name: Reason(ReasonCode.CODE_BROKEN, observed=problem)
        for name, case in cases.items()
        if name not in left_out and (problem := broken(case, suite, cluster, catalog)) is not None
    }
    return RunPlan(
        run=run,
        owner=suite.owner,
        protocol=suite.protocol,
        policy=suite.policy,
        channels=suite.alerts,
        cluster=cluster,
        cases=tuple(
            _case_plan(job, suite, cluster, catalog, left_out.get(job.case.case_id)) for job in jobs
        ),
        jobs=tuple(job for job in jobs if job.case.case_id not in {*left_out, *unavailable}),
        unavailable=unavailable,
        routes=suite.routes,
        zone=zone_of(suite, cluster).key,
        pairs=night.pairs if night else (),
    )


def zone_of(suite: Suite, cluster: Cluster) -> ZoneInfo:
    """Return the time zone in which a suite's nights are spoken of."""
    hours = suite.night.window or cluster.window
    return Hours.parse(hours).zone if hours else ZoneInfo("UTC")


def _case_plan(
    job: JobSpec, suite: Suite, cluster: Cluster, catalog: Catalog, left_out: Reason | None
) -> CasePlan:
    workload = catalog.workloads[job.case.workload]
    planned = PlannedCase(
        job.case,
        job.build,
        job.definition_digest,
        job.unit,
        left_out,
        private_build=job.case.framework in suite.private_builds,
        untried=untried_because(job.case, cluster, catalog, suite.builds),
        flops_per_unit=flops_per_unit(workload, job.case),
        tokens_per_unit=tokens_per_unit(workload, job.case),
    )
    return CasePlan.of(job, workload, planned)
