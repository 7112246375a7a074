-- The median of the newest control measurements of each series of a cluster.
with numbered as (
    select
        *,
        row_number() over (
            partition by node, metric, device, backend
            order by at desc
        ) as age
    from raw.control
    where
        cluster = %(cluster)s
        and (%(before)s::timestamptz is null or at < %(before)s)
)

select
    node,
    metric,
    device,
    backend,
    percentile_cont(0.5) within group (order by median) as median,
    count(*) as n
from numbered
where age <= 10
group by node, metric, device, backend
order by node, metric, device, backend;
