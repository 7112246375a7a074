"""From cases to jobs: which are run, on which nodes, with which processes. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from nightbench.core.capabilities import (
    Refusal,
    image_of,
    prefix_of,
    refusal_of,
    variant_of,
)
from nightbench.core.code_digest import file_digest
from nightbench.core.errors import UserError
from nightbench.core.model import (
    Build,
    Case,
    Catalog,
    Cluster,
    JobSpec,
    Limits,
    Protocol,
    Suite,
    WorkloadInfo,
    digest_of,
)
from nightbench.core.placement import place


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
        raise UserError("the selection holds no case")
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
            "case": case.axes(),
            "workload": workload.digest,
            "params": dict(workload.scales.get(case.scale, {})),
            "seed": workload.seed,
            # An option that is not used must not cut the histories of those who never heard of it.
            "protocol": {k: v for k, v in vars(protocol).items() if v is not None},
        }
    )


def resolve(
    case: Case,
    suite: Suite,
    cluster: Cluster,
    catalog: Catalog,
    run_id: str,
    generation: int = 0,
    *,
    deadline: datetime | None = None,
) -> JobSpec:
    """Turn a case of a suite into the job that its gang runs on a cluster.

    The suite's environment is stronger than the cluster's; a node's own and a role's are laid over
    both on the node.

    Args:
        case: the case.
        suite: says how it is measured.
        cluster: and where.
        catalog: what can be run.
        run_id: the run.
        generation: how often a person has cleared the case.
        deadline: no repeat is started that cannot end by then.

    Raises:
        UserError: framework, workload or cluster cannot run the case.
    """
    catalog = catalog.with_commands(suite)
    refusal = refusal_of(case, catalog, cluster, untried=suite.untried)
    if refusal is not None:
        raise UserError(f"suite {suite.name}: {case.case_id}: {refusal.message}")
    workload = catalog.workloads[case.workload]
    nodes, processes = place(case, cluster, catalog.roles_of(case))
    roles = {*cluster.role_env, *suite.role_env}
    return JobSpec(
        run_id=run_id,
        case=case,
        generation=generation,
        cluster=cluster.name,
        build=build_of(case.framework, suite, cluster, catalog),
        protocol=suite.protocol,
        nodes=nodes,
        processes=processes,
        unit=workload.unit,
        workload_params=workload.params_of(case),
        seed=workload.seed,
        env={**cluster.env, **suite.env},
        role_env={
            role: {**cluster.role_env.get(role, {}), **suite.role_env.get(role, {})}
            for role in sorted(roles)
        },
        limits=Limits(repeat_s=suite.repeat_timeout_s, progress_s=suite.progress_timeout_s),
        code_digest=catalog.code_digest,
        definition_digest=definition_digest(case, workload, suite.protocol),
        environments=cluster.environments,
        neighbours=cluster.neighbours,
        lock=cluster.lock,
        transport=cluster.transport,
        data_path=cluster.data.get(case.data),
        link_command=cluster.link_command,
        deadline=deadline,
    )
