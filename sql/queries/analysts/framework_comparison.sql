-- Which framework line is fastest at the same work? The answer has the newest median of each series
-- whose work at least one other line did, too, on the same cluster. Two lines do the same work if
-- all axes except the framework are equal, and the kind of environment too. `relative_to_fastest`
-- is the throughput divided by the throughput of the fastest line. A parameter in `chosen` that is
-- null selects everything.
with chosen as not materialized (
    select
        null::text as workload,
        null::text as cluster
),

compared as (
    select
        m.*,
        max(m.throughput) over same_work as fastest,
        count(*) over same_work as lines
    from marts.latest_median as m
    cross join chosen as c
    where
        (c.workload is null or m.workload = c.workload)
        and (c.cluster is null or m.cluster = c.cluster)
    window
        same_work as (
            partition by m.cluster, m.environment, m.unit, m.axes - 'framework'
        )
)

select
    workload,
    cluster,
    strategy,
    nodes || 'x' || devices_per_node as devices,
    trainers,
    pservers,
    sync,
    batch_size_per_device,
    precision,
    compiler,
    scale,
    framework,
    framework_version,
    round(throughput::numeric, 2) as throughput,
    unit,
    round((throughput / fastest)::numeric, 3) as relative_to_fastest,
    n,
    round(spread::numeric, 4) as spread,
    is_synthetic,
    started_at
from compared
where lines > 1
order by
    workload asc,
    cluster asc,
    strategy asc,
    nodes asc,
    devices_per_node asc,
    trainers asc,
    pservers asc,
    sync asc,
    batch_size_per_device asc,
    precision asc,
    compiler asc,
    scale asc,
    relative_to_fastest desc;
