-- Messages about alerts: what has been sent on which channel, and what has not.

-- name: unnotified_alerts(suite, cluster)
-- Unsent messages about a suite's alerts on a cluster, the worst first: news of live ones, and
-- recoveries. The news of a night waits for its confirmation until that is overdue.
select
    u.kind,
    u.subject,
    u.news,
    u.alert_id,
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
    a.grown_from,
    a.metric,
    e.last_good_run_id,
    e.first_bad_run_id,
    c.axes,
    p.unit,
    exists(
        select 1
        from raw.experiment as x
        where
            x.alert_id = u.alert_id
            and x.run_id = u.news
            and x.kind = 'confirm'
            and x.requested_by = 'nightbench'
            and x.state in ('queued', 'running')
            and (x.until is null or x.until > now())
    ) as is_awaited
from staging.unnotified_alert as u
inner join raw.alert as a on u.alert_id = a.alert_id
inner join raw.run as r on u.news = r.run_id
inner join staging.series as c on a.case_id = c.case_id and a.cluster = c.cluster
inner join raw.run as last_run on a.last_run_id = last_run.run_id
left join raw.alert_rank as k on u.alert_id = k.alert_id
left join lateral (
    select
        n.last_good_run_id,
        n.first_bad_run_id
    from raw.alert_cause as n
    where n.alert_id = u.alert_id
    order by n.at desc
    limit 1
) as e on true
left join raw.planned_case as p
    on last_run.run_key = p.run_key and c.series_key = p.series_key
where
    r.suite = :suite
    and a.cluster = :cluster
order by k.rank, k.place, r.started_at, a.case_id, u.alert_id;

-- name: unnotified_suites()
-- Suites with an alert without a message, with the last run that had news of them.
select distinct on (r.suite, r.cluster)
    r.suite,
    r.cluster,
    r.run_id,
    r.started_at
from staging.unnotified_alert as u
inner join raw.run as r on u.news = r.run_id
order by r.suite asc, r.cluster asc, r.started_at desc, r.run_id desc;

-- name: unnotified_notes(suite, cluster, until)
-- Unsent messages about a suite's series and its detector, of nights up to `until`.
with notes as (
    select
        'noise' as kind,
        e.case_id as subject,
        e.run_id as news,
        e.at,
        0.0 as size,
        to_jsonb(e) as fact
    from marts.fct_noise_event as e
    where e.suite = :suite and e.cluster = :cluster
    union all
    select
        'drift' as kind,
        d.case_id as subject,
        d.run_id as news,
        d.at,
        d.change as size,
        to_jsonb(d) as fact
    from marts.fct_drift as d
    where d.suite = :suite and d.cluster = :cluster and d.is_news and d.over_at is null
    union all
    select
        'grade' as kind,
        g.measure as subject,
        g.run_id as news,
        g.started_at as at,
        0.0 as size,
        to_jsonb(g) as fact
    from marts.detector_grade as g
    where g.suite = :suite and g.cluster = :cluster and g.is_news
)

select n.*
from notes as n
where
    n.at <= :until
    and not exists (
        select from raw.delivery as d
        where
            d.kind = n.kind
            and d.subject = n.subject
            and d.news = n.news
            and d.channel = ''
    )
order by n.kind, n.size, n.at, n.subject;

-- name: deliveries(kinds, subjects, news)
-- Channels that took some items; an empty one: no channel lacks the item.
select d.*
from unnest(:kinds::text[], :subjects::text[], :news::text[]) as i (kind, subject, news)
inner join raw.delivery as d
    on i.kind = d.kind and i.subject = d.subject and i.news = d.news;

-- name: night_messages(suite, cluster, night)
-- Channels that took a suite's message of a night on a cluster.
select channel
from raw.message
where
    suite = :suite
    and cluster = :cluster
    and night = :night
    and kind = 'night';

-- name: store_message(suite, cluster, night, kind, channel, run_id, title)
-- A message that a channel took. Returns its number.
insert into raw.message (suite, cluster, night, kind, channel, run_id, title)
values (
    :suite, :cluster, :night, :kind, :channel, :run_id, :title
)
returning message_id;
