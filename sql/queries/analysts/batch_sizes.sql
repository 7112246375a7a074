-- What is gained by a larger batch? The newest median of each series is compared with the newest
-- median of the next smaller batch size (`gain_over_smaller`). All other axes are the same; axes
-- without a column are in `case_id` if they differ from their default. A parameter in `chosen` that
-- is null selects everything.
with chosen as not materialized (
    select
        null::text as workload,
        null::text as framework,
        null::text as cluster
),

stepped as (
    select
        m.*,
        lag(m.throughput) over (
            partition by m.cluster, m.environment, m.axes - 'batch_size_per_device'
            order by m.batch_size_per_device
        ) as throughput_of_smaller
    from marts.latest_median as m
    cross join chosen as c
    where
        (c.workload is null or m.workload = c.workload)
        and (c.framework is null or m.framework = c.framework)
        and (c.cluster is null or m.cluster = c.cluster)
)

select
    workload,
    framework,
    cluster,
    strategy,
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
    is_synthetic,
    case_id
from stepped
order by
    workload,
    framework,
    cluster,
    strategy,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    sync,
    precision,
    compiler,
    scale,
    -- Axes that are no column here: what steps from batch to batch stays together.
    environment,
    axes - 'batch_size_per_device',
    batch_size_per_device;
