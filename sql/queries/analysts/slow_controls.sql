-- Which nodes, or links between nodes, are slow by themselves? The newest control measurement of
-- each series beside the median of up to ten before it on the same node; the slowest first. A case
-- that lost speed on nodes that did not: look at its framework. Null in `chosen` does not constrain.
with chosen as not materialized (
    select
        null::text as cluster,
        null::timestamptz as until
),

latest as (
    select distinct on (r.cluster, r.node, r.metric, r.device, r.backend)
        r.cluster,
        r.node,
        r.metric,
        r.device,
        r.backend,
        r.at
    from raw.control as r
    cross join chosen as c
    where
        (c.cluster is null or r.cluster = c.cluster)
        and (c.until is null or r.at <= c.until)
    order by r.cluster asc, r.node asc, r.metric asc, r.device asc, r.backend asc, r.at desc
)

select
    h.cluster,
    h.node,
    h.metric,
    h.device,
    h.backend,
    h.at,
    h.run_id,
    h.median,
    h.unit,
    h.median_before,
    h.nights_before,
    round((100 * (h.ratio - 1))::numeric, 1) as change_percent
from latest as l
inner join marts.control_history as h
    on
        l.cluster = h.cluster
        and l.node = h.node
        and l.metric = h.metric
        and l.device = h.device
        and l.backend = h.backend
        and l.at = h.at
where h.nights_before >= 3
order by h.ratio asc, h.cluster asc, h.node asc;
