-- How does each workload scale over devices, nodes, trainers and parameter servers? The answer has
-- the newest median of each series, with speed-up and efficiency relative to a smaller case of the
-- same run (`baseline_case_id`). Both cases have the same batch size per device (weak scaling).
-- Axes without a column are in `case_id` if they differ from their default. A parameter in `chosen`
-- that is null selects everything.
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
