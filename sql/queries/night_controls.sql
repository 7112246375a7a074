-- Control measurements of the nights of a cluster up to one, by run; a look that was repeated
-- counts once, with the median of its figures.
select
    c.run_id,
    c.node,
    c.metric,
    c.device,
    c.backend,
    percentile_cont(0.5) within group (order by c.median) as median
from raw.control as c
inner join raw.run as r on c.run_id = r.run_id
where
    c.cluster = %(cluster)s
    and r.cluster = %(cluster)s
    and r.run_kind = 'nightly'
    and r.started_at <= %(until)s
    and r.started_at > %(until)s - interval '180 days'
group by c.run_id, c.node, c.metric, c.device, c.backend
order by c.run_id, c.node, c.metric, c.device, c.backend;
