-- How does each workload scale? The newest run of each suite and cluster: speed-up and efficiency
-- against the baseline case of the same run (same batch per device: weak scaling).
with latest as (
    select distinct on (suite, cluster) run_id
    from marts.fct_measurement
    where
        run_kind in ('nightly', 'on_demand')
        and not is_imported
    order by suite asc, cluster asc, started_at desc
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
from marts.fct_measurement as m
inner join latest as l on m.run_id = l.run_id
order by
    m.workload,
    m.framework,
    m.precision,
    m.batch_size_per_device,
    m.cluster,
    m.sync,
    m.pservers,
    m.trainers;
