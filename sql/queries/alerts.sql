-- Alerts: their life, what people do with them, and their history.

-- name: alerts(states, case_id, cluster, alert_id, group_key, max_rows)
-- Alerts, newest first. A null parameter does not filter.
select *
from marts.fct_alert
where
    (:states::text[] is null or state = any(:states))
    and (:case_id::text is null or case_id = :case_id)
    and (:cluster::text is null or cluster = :cluster)
    and (:alert_id::bigint is null or alert_id = :alert_id)
    and (:group_key::text is null or group_key = :group_key)
order by opened_at desc, alert_id desc
limit :max_rows;

-- name: live_alerts(cluster)
-- Columns by which the live alerts of a cluster are ranked.
select
    alert_id,
    group_key,
    change,
    change_low,
    change_high,
    metric,
    confirmation
from marts.fct_alert
where cluster = :cluster and state in ('open', 'acknowledged');

-- name: continuing_alerts(cluster)
-- Alerts that a night's verdicts are compared with: live ones, and dismissed ones whose event
-- continues.
select
    a.case_id,
    a.cluster,
    a.verdict as kind,
    a.value,
    a.baseline,
    a.alert_id,
    a.state = 'dismissed' as is_dismissed,
    a.suspect,
    a.suspect_run_id,
    a.suspect_at,
    a.notified_change,
    a.notified_low,
    a.notified_high,
    a.metric,
    r.suite
from marts.fct_alert as a
inner join raw.run as r on a.last_run_id = r.run_id
where
    a.cluster = :cluster
    and (
        a.state in ('open', 'acknowledged')
        or (a.state = 'dismissed' and a.resolved_run_id is null)
    )
order by a.opened_at asc, a.alert_id asc;

-- name: unmeasured_alerts()
-- Live alerts of series that no later night of their suite has planned, and how many there are.
select
    alert.alert_id,
    run.suite,
    last.run_at as planned_at,
    count(*) as nights
from raw.alert as alert
inner join raw.run as run on alert.last_run_id = run.run_id
inner join raw.series as series
    on alert.case_id = series.case_id and alert.cluster = series.cluster
cross join
    lateral (
        select max(planned.run_at) as run_at
        from raw.planned_case as planned
        where planned.series_key = series.series_key
    ) as last
inner join raw.run as night
    on
        run.suite = night.suite
        and alert.cluster = night.cluster
        and night.run_kind = 'nightly'
        and last.run_at < night.started_at
where alert.state in ('open', 'acknowledged')
group by alert.alert_id, run.suite, last.run_at
order by alert.alert_id;

-- name: alert_events(alert_id)
-- The history of an alert, oldest first.
select *
from marts.fct_alert_event
where alert_id = :alert_id
order by event_id;

-- name: alert_moves()
-- Moves of all alerts from one state to another, by whom and why, oldest first.
select *
from marts.fct_alert_event
where what = 'moved'
order by event_id;

-- name: regressions()
-- Every alert on a drop: the run that opened it, and the last run that confirmed it.
select
    a.alert_id,
    a.case_id,
    a.cluster,
    a.dismissed_as,
    opened.started_at as opened_at,
    latest.started_at as last_at
from marts.fct_alert as a
inner join staging.run as opened on a.opened_run_id = opened.run_id
inner join staging.run as latest on a.last_run_id = latest.run_id
where a.verdict = 'regressed'
order by a.alert_id;

-- name: live_shared_changes(cluster)
-- Shared changes whose alert is live, or dismissed while its event continues; the earliest run
-- first.
select
    a.alert_id,
    a.case_id,
    m.factor,
    m.name,
    m.since,
    m.members
from raw.shared_change as m
inner join raw.alert as a on m.alert_id = a.alert_id
inner join raw.run as r on m.run_id = r.run_id
where
    a.cluster = :cluster
    and (
        a.state in ('open', 'acknowledged')
        or (a.state = 'dismissed' and a.resolved_run_id is null)
    )
order by a.alert_id asc, r.started_at asc;

-- name: shared_changes_of_alerts(alert_ids)
-- The newest shared change of each of some alerts.
select distinct on (m.alert_id)
    m.alert_id,
    m.sentence,
    m.members
from raw.shared_change as m
inner join raw.run as r on m.run_id = r.run_id
where m.alert_id = any(:alert_ids)
order by m.alert_id asc, r.started_at desc;
