-- How does each workload scale? The newest run of each suite and cluster: speed-up and efficiency
-- against the baseline case of the same run (same batch per device: weak scaling).
with measured as (
    select
        *,
        max(started_at) over (partition by suite, cluster) as latest_at
    from marts.fct_measurement
    where
        run_kind in ('nightly', 'on_demand')
        and not is_private_build
        and not is_imported
)

select
    m.workload,
    m.framework,
    m.precision,
    m.batch_size_per_device,
    m.cluster,
    m.nodes || 'x' || m.devices_per_node as devices,
    case when m.pservers > 0 then m.pservers || ' servers, ' || m.trainers || ' trainers' end
        as parameter_server,
    m.sync,
    round(m.throughput::numeric, 2) as throughput,
    m.unit,
    round(m.speedup::numeric, 3) as speedup,
    round(m.efficiency::numeric, 3) as efficiency,
    m.baseline_case_id,
    m.is_synthetic,
    m.run_id
from measured as m
where m.started_at = m.latest_at
order by
    m.workload,
    m.framework,
    m.precision,
    m.batch_size_per_device,
    m.cluster,
    m.sync,
    m.pservers,
    m.trainers;
