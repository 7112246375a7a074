-- Messages about alerts: what has been sent on which channel, and what has not.

-- name: unnotified_alerts(suite, cluster)
-- What is unnotified of a suite's alerts on a cluster: news of live ones, and recoveries. Snoozed
-- alerts are not notified. The news of a night waits for its confirmation until that is overdue.
with unnotified as (
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
    a.grown_from,
    a.metric,
    c.axes,
    p.unit,
    exists(
        select 1
        from raw.experiment as k
        where
            k.alert_id = u.alert_id
            and k.run_id = u.of_run_id
            and k.kind = 'confirm'
            and k.requested_by = 'nightbench'
            and k.state in ('queued', 'running')
            and (k.until is null or k.until > now())
    ) as is_awaited
from unnotified as u
inner join raw.alert as a on u.alert_id = a.alert_id
inner join raw.run as r on u.of_run_id = r.run_id
inner join staging.series as c on a.case_id = c.case_id and a.cluster = c.cluster
inner join raw.run as last_run on a.last_run_id = last_run.run_id
left join raw.planned_case as p
    on last_run.run_key = p.run_key and c.series_key = p.series_key
where
    r.suite = :suite
    and a.cluster = :cluster
order by r.started_at asc, a.case_id asc, u.alert_id asc;

-- name: unnotified_suites()
-- Suites of which something is unnotified, with the last run that brought news of them.
select distinct on (r.suite, r.cluster)
    r.suite,
    r.cluster,
    r.run_id,
    r.started_at
from raw.alert as a
inner join raw.run as r
    on
        (
            a.news_run_id = r.run_id
            and a.state in ('open', 'acknowledged')
            and a.told_at is null
            and (a.snoozed_until is null or a.snoozed_until <= now())
        )
        or (
            a.resolved_run_id = r.run_id
            and a.state = 'resolved'
            and (a.end_told_at is null or a.end_told_at < a.closed_at)
        )
order by r.suite asc, r.cluster asc, r.started_at desc, r.run_id desc;

-- name: notified_items(alert_ids)
-- Items of some alerts that channels took: no channel is sent an item twice.
select
    i.alert_id,
    i.what,
    i.of_run_id,
    m.channel
from raw.message_item as i
inner join raw.message as m on i.message_id = m.message_id
where i.alert_id = any(:alert_ids);

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

-- name: mark_notified*!
-- Marks the news of an alert as notified; also where it has no channel. News that came since stays
-- unnotified.
update raw.alert
set
    told_at = clock_timestamp(),
    grown_from = null
where
    alert_id = :alert_id
    and news_run_id = :of_run_id
    and told_at is null;

-- name: mark_end_notified*!
-- Marks the end of an alert by a run as notified; also where it has no channel.
update raw.alert
set end_told_at = clock_timestamp()
where
    alert_id = :alert_id
    and resolved_run_id = :of_run_id;
