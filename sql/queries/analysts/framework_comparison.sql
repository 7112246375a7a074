-- Which framework line is fastest at the same work? The newest median of each series; lines are
-- ranked only among equal axes, environment included, and relative to the fastest of them.
with latest as (
    select distinct on (case_id, cluster) *
    from marts.fct_measurement
    where run_kind in ('nightly', 'on_demand') and not is_private_build
    order by case_id asc, cluster asc, started_at desc
),

compared as (
    select
        *,
        max(throughput) over same_work as fastest,
        count(*) over same_work as lines
    from latest
    window
        same_work as (
            partition by cluster, environment, unit, axes - 'framework'
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
