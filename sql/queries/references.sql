-- Published results of the public benchmarks.

-- name: store_reference*!
-- A cell of the public benchmarks; value null where it is empty.
-- Writes only where something differs.
insert into raw.reference_result as t (
    reference_id,
    source,
    figure,
    workload,
    dataset,
    framework,
    framework_version,
    mode,
    nodes,
    devices_per_node,
    device,
    trainers,
    pservers,
    batch_size_per_device,
    precision,
    compiler,
    variant,
    metric,
    unit,
    value,
    remark
)
values (
    :reference_id,
    :source,
    :figure,
    :workload,
    :dataset,
    :framework,
    :framework_version,
    :mode,
    :nodes,
    :devices_per_node,
    :device,
    :trainers,
    :pservers,
    :batch_size_per_device,
    :precision,
    :compiler,
    :variant,
    :metric,
    :unit,
    :value,
    :remark
)
on conflict (reference_id) do update set
    source = excluded.source,
    figure = excluded.figure,
    workload = excluded.workload,
    dataset = excluded.dataset,
    framework = excluded.framework,
    framework_version = excluded.framework_version,
    mode = excluded.mode,
    nodes = excluded.nodes,
    devices_per_node = excluded.devices_per_node,
    device = excluded.device,
    trainers = excluded.trainers,
    pservers = excluded.pservers,
    batch_size_per_device = excluded.batch_size_per_device,
    precision = excluded.precision,
    compiler = excluded.compiler,
    variant = excluded.variant,
    metric = excluded.metric,
    unit = excluded.unit,
    value = excluded.value,
    remark = excluded.remark
where t.* is distinct from excluded.*;

-- name: published(document, figures, metric)
-- The cells of a public benchmark's tables at one metric, in the order of the document.
select
    workload,
    framework,
    framework_text,
    framework_version,
    implementation,
    strategy,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    coalesce(batch_size_per_device::text, nullif(batch_size_text, '')) as batch_size_per_device,
    precision,
    compiler,
    sync,
    compression,
    case when link_gbit_per_s is null then null else link_gbit_per_s || 'gbit' end
        as link_bandwidth,
    device,
    value,
    unit_text,
    remark
from staging.reference_result
where
    source_document = :document
    and figure = any(:figures)
    and metric = :metric
order by
    array_position(:figures, figure),
    framework_text,
    framework_version,
    implementation nulls first,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    batch_size_per_device;

-- name: newest_of_cases(cluster, case_ids)
-- For each case on a cluster its newest attempt, and its newest good median, which may be older.
-- Runs of builds that were named by hand, confirmations and drills are none.
with attempt as (
    select
        p.case_id,
        r.run_id,
        r.started_at,
        p.unit,
        coalesce(p.global_batch_size, m.found_batch_size * p.trainers) as global_batch_size,
        m.throughput,
        m.speedup,
        m.efficiency,
        m.sent_bytes_per_step,
        m.n,
        m.spread,
        coalesce(
            m.status, case when p.left_out is null then 'missing' else 'left_out' end
        ) as status,
        coalesce(m.is_quarantined, false) as quarantined,
        coalesce(m.reasons, jsonb_path_query_array(p.left_out, '$'), '[]') as reasons,
        coalesce(m.quarantine_reasons, '[]') as quarantine_reasons
    from staging.planned_case as p
    inner join staging.run as r on p.run_id = r.run_id
    left join staging.measurement as m
        on p.run_id = m.run_id and p.case_id = m.case_id
    where
        p.case_id = any(:case_ids)
        and r.cluster = :cluster
        and r.loaded_at is not null
        and r.run_kind in ('nightly', 'on_demand')
        and not p.is_private_build
),

newest as (
    select distinct on (case_id) *
    from attempt
    order by case_id asc, started_at desc
),

good as (
    select distinct on (case_id) *
    from attempt
    where
        status = 'ok'
        and throughput is not null
        and not quarantined
    order by case_id asc, started_at desc
)

select
    n.case_id,
    n.status,
    n.quarantined,
    n.reasons,
    n.quarantine_reasons,
    n.unit,
    g.run_id,
    g.started_at,
    g.throughput,
    g.throughput / g.global_batch_size as minibatches_per_s,
    g.speedup,
    g.efficiency,
    g.sent_bytes_per_step,
    coalesce(g.n, 0) as n,
    g.spread
from newest as n
left join good as g on n.case_id = g.case_id;

-- name: newest_scale(suite, cluster)
-- The scale of a suite's newest run on a cluster.
select p.scale
from staging.run as r
inner join staging.planned_case as p on r.run_id = p.run_id
where
    r.suite = :suite
    and r.cluster = :cluster
    and r.run_kind in ('nightly', 'on_demand')
order by r.started_at desc
limit 1;
