-- Grain: one row per control measurement (cluster, node, metric, device, backend) and time.
create or replace view marts.control_history as
with looked_up as (
    select
        c.*,
        array(
            select p.median
            from raw.control as p
            where
                p.cluster = c.cluster
                and p.node = c.node
                and p.metric = c.metric
                and p.device = c.device
                and p.backend = c.backend
                and p.at < c.at
            order by p.at desc
            limit 10
        ) as before
    from raw.control as c
)

select
    cluster,
    node,
    metric,
    device,
    backend,
    at,
    nullif(run_id, '') as run_id,
    median,
    unit,
    minimum,
    maximum,
    n,
    (
        select percentile_cont(0.5) within group (order by b.median)
        from unnest(before) as b (median)
    ) as median_before,
    cardinality(before) as nights_before,
    median / (
        select percentile_cont(0.5) within group (order by b.median)
        from unnest(before) as b (median)
    ) as ratio
from looked_up;

comment on view marts.control_history is
'One row per control measurement, with the median of up to ten earlier control measurements on '
'the same node';
comment on column marts.control_history.ratio is
'median / median_before: a slow node is below 1 here, a slow framework is not';
comment on column marts.control_history.n is
'Number of values of this control measurement; their median is `median`';
comment on column marts.control_history.run_id is
'Run of the control measurement; null if a user requested it';
comment on column marts.control_history.median_before is
'Median of up to ten control measurements before it; null for the first';
comment on column marts.control_history.nights_before is
'Number of control measurements that median_before is the median of';
