-- What was planned and not measured? The answer has a row for each series that at least one nightly
-- run of a period planned and did not measure. The row has the number of runs by outcome, and the
-- reason why the newest of the runs without a result has none. The series that was most often not
-- measured comes first. A parameter in `chosen` that is null selects everything.
with chosen as not materialized (
    select
        now() - interval '14 days' as since,
        now() as until,
        null::text as suite,
        null::text as cluster
),

runs as (
    select r.*
    from staging.run as r
    cross join chosen as c
    where
        r.run_kind = 'nightly'
        and not r.is_imported
        and r.started_at > c.since
        and r.started_at <= c.until
        and (c.suite is null or r.suite = c.suite)
        and (c.cluster is null or r.cluster = c.cluster)
),

planned as (
    select p.*
    from runs as r
    cross join lateral (
        select o.*
        from marts.fct_planned_case as o
        where o.run_id = r.run_id
        order by o.case_id asc
        -- Run by run, because each run is in one month of results.
        offset 0
    ) as p
),

last_without as (
    select distinct on (case_id, cluster) *
    from planned
    where outcome <> 'measured'
    order by case_id asc, cluster asc, started_at desc
)

select
    p.case_id,
    p.cluster,
    count(*) as planned,
    count(*) filter (where p.outcome = 'measured') as measured,
    count(*) filter (where p.outcome = 'quarantined') as quarantined,
    count(*) filter (where p.outcome in ('failed', 'cancelled', 'unavailable')) as failed,
    count(*) filter (where p.outcome = 'left_out') as left_out,
    count(*) filter (where p.outcome in ('missing', 'not_loaded')) as missing,
    l.outcome as last_outcome,
    l.code as last_code,
    l.node as last_node,
    l.subject as last_subject,
    l.observed as last_observed,
    l.run_id as last_run_id
from planned as p
inner join last_without as l on p.case_id = l.case_id and p.cluster = l.cluster
group by
    p.case_id, p.cluster, l.outcome, l.code, l.node, l.subject, l.observed, l.run_id
order by count(*) filter (where p.outcome <> 'measured') desc, p.case_id asc, p.cluster asc;
