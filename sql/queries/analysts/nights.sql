-- Which nights are complete, and what is missing? The answer has a row for each scheduled night,
-- and for each nightly run without a schedule, newest first. missing-nights.md explains `state`. A
-- parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '14 days' as since,
        null::text as suite,
        null::text as cluster
),

promised as (
    select n.*
    from marts.fct_night as n
    cross join chosen as c
    where n.scheduled_at > c.since
),

ran as (
    select r.*
    from staging.run as r
    cross join chosen as c
    where r.started_at > c.since and r.run_kind = 'nightly' and not r.is_imported
)

select
    coalesce(n.suite, r.suite) as suite,
    coalesce(n.cluster, r.cluster) as cluster,
    coalesce(n.scheduled_at, r.started_at) as night,
    coalesce(n.state, 'unscheduled') as state,
    p.planned,
    p.measured,
    p.quarantined,
    p.failed,
    p.left_out,
    p.missing,
    coalesce(p.planned > 0 and p.measured = p.planned, false) as is_complete,
    n.sentence,
    coalesce(r.run_id, n.run_id) as run_id
from promised as n
full join ran as r on n.run_id = r.run_id
cross join chosen as c
left join lateral (
    select
        count(*) as planned,
        count(*) filter (where o.outcome = 'measured') as measured,
        count(*) filter (where o.outcome = 'quarantined') as quarantined,
        count(*) filter (where o.outcome in ('failed', 'cancelled', 'unavailable')) as failed,
        count(*) filter (where o.outcome = 'left_out') as left_out,
        count(*) filter (where o.outcome in ('missing', 'not_loaded')) as missing
    from marts.fct_planned_case as o
    where o.run_id = r.run_id
) as p on true
where
    (c.suite is null or coalesce(n.suite, r.suite) = c.suite)
    and (c.cluster is null or coalesce(n.cluster, r.cluster) = c.cluster)
order by night desc, suite asc, cluster asc;
