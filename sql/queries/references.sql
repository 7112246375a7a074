-- Published results of the public benchmarks.

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
select
    s.case_id,
    coalesce(
        a.status, case when newest.left_out is null then 'missing' else 'left_out' end
    ) as status,
    a.quarantine_reasons is not null as quarantined,
    coalesce(a.reasons, jsonb_path_query_array(newest.left_out, '$'), '[]') as reasons,
    coalesce(a.quarantine_reasons, '[]') as quarantine_reasons,
    coalesce(a.unit, newest.unit) as unit,
    g.run_id,
    g.started_at,
    g.throughput,
    g.minibatches_per_s as minibatches,
    g.speedup,
    g.efficiency,
    coalesce(g.tokens_per_s, case when g.unit = 'tokens' then g.throughput end)
    / coalesce(g.trainers, 1) as tokens_per_device,
    g.mfu,
    g.model_flops_per_s / 1e12 / coalesce(g.trainers, 1) as tflops,
    g.sent_bytes_per_step,
    coalesce(g.n, 0) as n,
    g.spread
from raw.series as s
cross join
    lateral (
        select
            p.run_key,
            p.run_at,
            p.left_out,
            p.unit
        from raw.planned_case as p
        inner join raw.run as r on p.run_key = r.run_key
        where
            p.series_key = s.series_key
            and r.loaded_at is not null
            and r.run_kind in ('nightly', 'on_demand')
            and not p.is_private_build
        order by p.run_at desc
        limit 1
    ) as newest
left join lateral (
    select
        m.status,
        m.reasons,
        m.quarantine_reasons,
        m.unit
    from raw.measurement as m
    where
        m.run_key = newest.run_key
        and m.series_key = s.series_key
        and m.run_at = newest.run_at
        and not m.is_superseded
) as a on true
left join lateral (
    -- Stops at the newest month that has one.
    select f.*
    from marts.fct_measurement as f
    where
        f.series_key = s.series_key
        and f.run_kind in ('nightly', 'on_demand')
        and not f.is_private_build
    order by f.started_at desc
    limit 1
) as g on true
where
    s.cluster = :cluster
    and s.case_id = any(:case_ids);

-- name: newest_scale(suite, cluster)
-- The scale of a suite's newest run on a cluster.
select p.scale
from raw.run as r
inner join raw.planned_case as n on r.run_key = n.run_key
inner join staging.series as p on n.series_key = p.series_key
where
    r.suite = :suite
    and r.cluster = :cluster
    and r.run_kind in ('nightly', 'on_demand')
order by r.started_at desc
limit 1;
