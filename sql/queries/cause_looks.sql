-- Preflights of a cluster's nodes in a span of time, oldest first: what may explain a slow case.
select
    node,
    at,
    findings,
    document ->> 'boot_id' as boot_id,
    document -> 'gpus' as gpus,
    document -> 'cpu' -> 'governors' as governors,
    document -> 'links' as links,
    document -> 'foreign' as foreign_work
from raw.node_preflight
where
    cluster = %(cluster)s
    and at > %(since)s
    and at <= %(until)s
order by node, at;
