-- What does a larger batch bring? The newest median of each series, beside the next smaller batch
-- of otherwise equal work.
with latest as (
    select distinct on (case_id, cluster) *
    from marts.fct_measurement
    where run_kind in ('nightly', 'on_demand') and not is_private_build
    order by case_id asc, cluster asc, started_at desc
),

stepped as (
    select
        *,
        lag(throughput) over (
            partition by cluster, environment, axes - 'batch_size_per_device'
            order by batch_size_per_device
        ) as throughput_of_smaller
    from latest
)

select
    workload,
    framework,
    cluster,
    nodes || 'x' || devices_per_node as devices,
    trainers,
    pservers,
    sync,
    precision,
    compiler,
    scale,
    batch_size_per_device,
    global_batch_size,
    round(throughput::numeric, 2) as throughput,
    unit,
    round(minibatches_per_s::numeric, 4) as minibatches_per_s,
    round((throughput / throughput_of_smaller)::numeric, 3) as gain_over_smaller,
    peak_resident_bytes,
    is_synthetic
from stepped
order by
    workload,
    framework,
    cluster,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    sync,
    precision,
    compiler,
    scale,
    batch_size_per_device;
