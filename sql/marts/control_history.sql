-- Grain: one row per control measurement (cluster, node, metric, device, backend) and time.
create or replace view marts.control_history as
with numbered as (
    select
        *,
        row_number() over (
            partition by cluster, node, metric, device, backend
            order by at
        ) as ordinal
    from raw.control
)

select
    c.cluster,
    c.node,
    c.metric,
    c.device,
    c.backend,
    c.at,
    nullif(c.run_id, '') as run_id,
    c.median,
    c.unit,
    c.minimum,
    c.maximum,
    c.n,
    b.median_before,
    b.nights_before,
    c.median / b.median_before as ratio
from numbered as c
cross join lateral (
    select
        percentile_cont(0.5) within group (order by e.median) as median_before,
        count(*) as nights_before
    from numbered as e
    where
        e.cluster = c.cluster
        and e.node = c.node
        and e.metric = c.metric
        and e.device = c.device
        and e.backend = c.backend
        and e.ordinal between c.ordinal - 10 and c.ordinal - 1
) as b;

comment on view marts.control_history is
'One row per control measurement, beside the median of up to ten before it on the same node';
comment on column marts.control_history.ratio is
'median / median_before: a slow node is below 1 here, a slow framework is not';
