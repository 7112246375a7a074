-- How does each workload scale over devices, nodes, trainers and parameter servers? The newest median
-- of each series, with speed-up and efficiency against the baseline case of its own run (same batch
-- per device: weak scaling); `case_id` names further axes. Null in `chosen` does not filter.
with chosen as not materialized (
    select
        null::text as workload,
        null::text as framework,
        null::text as cluster
)

select
    m.workload,
    m.framework,
    m.precision,
    m.batch_size_per_device,
    m.cluster,
    m.strategy,
    m.nodes || 'x' || m.devices_per_node as devices,
    m.trainers,
    m.pservers,
    m.sync,
    round(m.throughput::numeric, 2) as throughput,
    m.unit,
    round(m.speedup::numeric, 3) as speedup,
    round(m.efficiency::numeric, 3) as efficiency,
    m.baseline_case_id,
    m.is_synthetic,
    m.started_at,
    m.run_id,
    m.case_id
from marts.latest_median as m
cross join chosen as c
where
    not m.is_imported
    and (c.workload is null or m.workload = c.workload)
    and (c.framework is null or m.framework = c.framework)
    and (c.cluster is null or m.cluster = c.cluster)
order by
    m.workload,
    m.framework,
    m.precision,
    m.batch_size_per_device,
    m.cluster,
    m.strategy,
    m.sync,
    m.pservers,
    m.trainers,
    m.devices_per_node,
    m.case_id;
