-- Grain: one row per control measurement (cluster, node, metric, device, backend) and time.
create or replace view marts.control_history as
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
    percentile_cont(0.5) within group (order by b.median) as median_before,
    count(b.median) as nights_before,
    c.median / percentile_cont(0.5) within group (order by b.median) as ratio
from raw.control as c
left join lateral (
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
) as b on true
group by c.cluster, c.node, c.metric, c.device, c.backend, c.at;

comment on view marts.control_history is
'One row per control measurement, beside the median of up to ten before it on the same node';
comment on column marts.control_history.ratio is
'median / median_before: a slow node is below 1 here, a slow framework is not';
comment on column marts.control_history.run_id is
'The run that it was for; null where a person looked';
comment on column marts.control_history.median_before is
'Median of up to ten control measurements before it; null for the first';
comment on column marts.control_history.nights_before is 'How many those are';
