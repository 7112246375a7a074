-- Runs: what a run plans to measure, with its cluster and its builds.

-- name: store_run*!
-- A run; only mark_loaded sets `loaded_at`.
-- Writes only where something differs.
insert into raw.run as t (
    run_id,
    suite,
    cluster,
    run_kind,
    started_at,
    requested_by,
    dag_id,
    dag_run_id,
    code_digest,
    origin
)
values (
    :run_id,
    :suite,
    :cluster,
    :run_kind,
    :started_at,
    :requested_by,
    :dag_id,
    :dag_run_id,
    :code_digest,
    :origin
)
on conflict (run_id) do update set
    suite = excluded.suite,
    cluster = excluded.cluster,
    run_kind = excluded.run_kind,
    started_at = excluded.started_at,
    requested_by = excluded.requested_by,
    dag_id = excluded.dag_id,
    dag_run_id = excluded.dag_run_id,
    code_digest = excluded.code_digest,
    origin = excluded.origin
where
t.suite is distinct from excluded.suite
or t.cluster is distinct from excluded.cluster
or t.run_kind is distinct from excluded.run_kind
or t.started_at is distinct from excluded.started_at
or t.requested_by is distinct from excluded.requested_by
or t.dag_id is distinct from excluded.dag_id
or t.dag_run_id is distinct from excluded.dag_run_id
or t.code_digest is distinct from excluded.code_digest
or t.origin is distinct from excluded.origin;

-- name: mark_loaded*!
-- Sets the time of the first load of a run's results; a second load keeps it.
update raw.run
set loaded_at = now()
where
    run_id = :run_id
    and loaded_at is null;

-- name: store_cluster*!
-- A cluster as its YAML describes it.
-- Writes only where something differs.
insert into raw.cluster as t (
    cluster,
    description,
    device_kind,
    devices_per_node,
    nodes,
    shared
)
values (
    :cluster,
    :description,
    :device_kind,
    :devices_per_node,
    :nodes,
    :shared
)
on conflict (cluster) do update set
    description = excluded.description,
    device_kind = excluded.device_kind,
    devices_per_node = excluded.devices_per_node,
    nodes = excluded.nodes,
    shared = excluded.shared
where t.* is distinct from excluded.*;

-- name: store_build*!
-- A build of a framework line.
-- Writes only where something differs.
insert into raw.build as t (
    build_id,
    line,
    variant,
    source,
    version,
    location,
    digest
)
values (
    :build_id,
    :line,
    :variant,
    :source,
    :version,
    :location,
    :digest
)
on conflict (build_id) do update set
    line = excluded.line,
    variant = excluded.variant,
    source = excluded.source,
    version = excluded.version,
    location = excluded.location,
    digest = excluded.digest
where t.* is distinct from excluded.*;

-- name: store_planned_case*!
-- A case that a run means to measure.
-- Writes only where something differs.
insert into raw.planned_case as t (
    run_id,
    case_id,
    axes,
    build_id,
    unit,
    definition_digest,
    left_out,
    private_build
)
values (
    :run_id,
    :case_id,
    :axes,
    :build_id,
    :unit,
    :definition_digest,
    :left_out,
    :private_build
)
on conflict (run_id, case_id) do update set
    axes = excluded.axes,
    build_id = excluded.build_id,
    unit = excluded.unit,
    definition_digest = excluded.definition_digest,
    left_out = excluded.left_out,
    private_build = excluded.private_build
where
t.axes is distinct from excluded.axes
or t.build_id is distinct from excluded.build_id
or t.unit is distinct from excluded.unit
or t.definition_digest is distinct from excluded.definition_digest
or t.left_out is distinct from excluded.left_out
or t.private_build is distinct from excluded.private_build;

-- name: runs(run_id, suite, cluster, imported, max_rows)
-- Runs, newest first, with how many of their cases were planned, measured, failed, quarantined.
-- A null parameter does not constrain.
with counted as (
    select
        p.run_id,
        count(*) as planned,
        count(m.run_id) filter (where m.status = 'ok' and not m.is_quarantined) as measured,
        count(m.run_id) filter (where m.status not in ('ok', 'left_out')) as failed,
        count(*) filter (where p.left_out is not null or m.status = 'left_out') as left_out,
        -- A failed case is refused as well, and counted once.
        count(m.run_id) filter (where m.is_quarantined and m.status = 'ok') as quarantined
    from staging.planned_case as p
    left join staging.measurement as m
        on p.run_id = m.run_id and p.case_id = m.case_id
    group by p.run_id
)

select
    r.run_id,
    r.suite,
    r.cluster,
    r.run_kind,
    r.started_at,
    r.requested_by,
    r.dag_id,
    r.dag_run_id,
    r.code_digest,
    r.loaded_at,
    r.is_imported,
    coalesce(c.planned, 0) as planned,
    coalesce(c.measured, 0) as measured,
    coalesce(c.failed, 0) as failed,
    coalesce(c.left_out, 0) as left_out,
    coalesce(c.quarantined, 0) as quarantined
from staging.run as r
left join counted as c on r.run_id = c.run_id
where
    (:run_id::text is null or r.run_id = :run_id)
    and (:suite::text is null or r.suite = :suite)
    and (:cluster::text is null or r.cluster = :cluster)
    and (:imported or not r.is_imported)
order by r.started_at desc, r.run_id desc
limit :max_rows;

-- name: latest_run(suite, cluster)
-- The newest run that was not imported. A null parameter does not constrain.
select run_id
from staging.run
where
    not is_imported
    and (:suite::text is null or suite = :suite)
    and (:cluster::text is null or cluster = :cluster)
order by started_at desc, run_id desc
limit 1;

-- name: first_run()
-- Start of the first run that was not imported.
select min(started_at) as at
from staging.run
where not is_imported;

-- name: cluster_heard(cluster)
-- Start of the newest run that brought a figure of a cluster.
select max(r.started_at) as at
from staging.run as r
inner join staging.measurement as m on r.run_id = m.run_id
where r.cluster = :cluster and not r.is_imported and m.status = 'ok';

-- name: planned_cases(run_id)
-- The cases that a run means to measure, with their builds.
select
    p.case_id,
    p.axes,
    p.unit,
    p.definition_digest,
    p.left_out,
    p.private_build,
    b.line,
    b.variant,
    b.source,
    b.version,
    b.location,
    b.digest
from raw.planned_case as p
inner join raw.build as b on p.build_id = b.build_id
where p.run_id = :run_id
order by p.case_id;

-- name: case_past(cluster)
-- Durations of each case on a cluster: the median seconds of its good runs among the last 20, as a
-- whole and for one repeat, as far as they were measured by the newest definition (another protocol
-- takes another time); and when a scheduled run last tried it. A failed case counts as tried, or it
-- would come first in every night; a case that was left out before its first launch does not.
with tried as (
    select
        m.case_id,
        m.status,
        m.elapsed_s,
        m.elapsed_s / greatest(m.n, 1) as repeat_s,
        m.definition_digest,
        r.run_kind,
        r.started_at,
        row_number() over (
            partition by m.case_id, m.status order by r.started_at desc, r.run_id desc
        ) as age,
        first_value(m.definition_digest) over (
            partition by m.case_id, m.status order by r.started_at desc, r.run_id desc
        ) as newest
    from staging.measurement as m
    inner join staging.run as r on m.run_id = r.run_id
    where r.cluster = :cluster
)

select
    case_id,
    percentile_cont(0.5) within group (order by elapsed_s) filter (
        where status = 'ok' and age <= 20 and definition_digest is not distinct from newest
    ) as seconds,
    percentile_cont(0.5) within group (order by repeat_s) filter (
        where status = 'ok' and age <= 20 and definition_digest is not distinct from newest
    ) as repeat_s,
    max(newest) filter (where status = 'ok') as definition_digest,
    max(started_at) filter (
        where
        run_kind = 'nightly'
        and (status in ('ok', 'failed', 'unavailable') or elapsed_s is not null)
    ) as last_at
from tried
group by case_id
order by case_id;

-- name: case_states(case_id, run_ids)
-- What a case was measured with in some runs: build, code, definition, fingerprints of its nodes.
with nodes as (
    select
        n.run_id,
        n.case_id,
        n.generation,
        n.node,
        -- A node that changed between repeats counts as it was last.
        (array_agg(n.fingerprint_id order by n.repeat desc))[1] as fingerprint_id
    from raw.repeat_node as n
    where n.fingerprint_id is not null
    group by n.run_id, n.case_id, n.generation, n.node
)

select
    p.run_id,
    r.started_at,
    r.code_digest,
    coalesce(m.build_id, p.build_id) as build_id,
    b.line,
    b.variant,
    b.source,
    b.version as build_version,
    b.location,
    m.framework_version,
    coalesce(m.definition_digest, p.definition_digest) as definition_digest,
    m.throughput,
    (
        select jsonb_object_agg(nodes.node, f.document)
        from nodes
        inner join raw.fingerprint as f on nodes.fingerprint_id = f.fingerprint_id
        where
            nodes.run_id = m.run_id
            and nodes.case_id = m.case_id
            and nodes.generation = m.generation
    ) as nodes
from raw.planned_case as p
inner join raw.run as r on p.run_id = r.run_id
left join staging.measurement as m on p.run_id = m.run_id and p.case_id = m.case_id
left join raw.build as b on coalesce(m.build_id, p.build_id) = b.build_id
where
    p.case_id = :case_id
    and p.run_id = any(:run_ids);
