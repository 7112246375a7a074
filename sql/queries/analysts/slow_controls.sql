-- Which nodes, or links between nodes, are slow by themselves? The newest control measurement of
-- each series beside the median of up to ten before it on the same node; the slowest first. A case
-- that lost speed on nodes that did not: look at its framework.
with latest as (
    select distinct on (cluster, node, metric, device, backend) *
    from marts.control_history
    order by cluster asc, node asc, metric asc, device asc, backend asc, at desc
)

select
    cluster,
    node,
    metric,
    device,
    backend,
    at,
    run_id,
    median,
    unit,
    median_before,
    nights_before,
    round((100 * (ratio - 1))::numeric, 1) as change_percent
from latest
where nights_before >= 3
order by ratio asc, cluster asc, node asc;
