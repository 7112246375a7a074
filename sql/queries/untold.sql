-- What nobody has been told of a suite's alerts on a cluster: news of live ones, and recoveries.
-- Who sleeps is quiet. A night's own confirmation is waited for until its time is over.
with untold as (
    select
        alert_id,
        'news' as what,
        news_run_id as of_run_id
    from raw.alert
    where
        state in ('open', 'acknowledged')
        and told_at is null
        and (snoozed_until is null or snoozed_until <= now())
    union all
    select
        alert_id,
        'ended' as what,
        resolved_run_id as of_run_id
    from raw.alert
    where
        state = 'resolved'
        and resolved_run_id is not null
        and (end_told_at is null or end_told_at < closed_at)
)

select
    u.alert_id,
    u.what,
    u.of_run_id,
    r.started_at as of_run_at,
    a.case_id,
    a.cluster,
    a.kind as verdict,
    a.last_run_id,
    a.owner,
    a.sentence,
    a.value,
    a.baseline,
    a.change,
    p.axes,
    p.unit,
    exists(
        select 1
        from raw.confirmation as c
        where
            c.alert_id = u.alert_id
            and c.run_id = u.of_run_id
            and c.asked_by = 'nightbench'
            and c.state in ('wanted', 'running')
            and (c.until is null or c.until > now())
    ) as is_awaited
from untold as u
inner join raw.alert as a on u.alert_id = a.alert_id
inner join raw.run as r on u.of_run_id = r.run_id
left join raw.planned_case as p on a.last_run_id = p.run_id and a.case_id = p.case_id
where
    r.suite = %(suite)s
    and a.cluster = %(cluster)s
order by r.started_at asc, a.case_id asc, u.alert_id asc;
