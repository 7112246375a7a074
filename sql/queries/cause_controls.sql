-- Control measurements of a cluster in a span of time, oldest first.
select
    node,
    metric,
    device,
    backend,
    at,
    median
from raw.control
where
    cluster = %(cluster)s
    and at > %(since)s
    and at <= %(until)s
order by node, metric, device, backend, at;
