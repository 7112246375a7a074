-- Grain: one row per alert, live or closed.
create or replace view marts.fct_alert as
select
    a.alert_id,
    a.case_id,
    a.cluster,
    a.kind as verdict,
    a.state,
    a.sentence,
    a.value,
    a.baseline,
    a.change,
    a.opened_run_id,
    a.opened_at,
    a.last_run_id,
    a.resolved_run_id,
    a.closed_at,
    told.at as notified_at,
    a.dismissed_as,
    a.snoozed_until,
    a.owner,
    a.news_run_id,
    a.suspect,
    a.suspect_run_id,
    a.suspect_at,
    c.state as confirmation_state,
    c.result ->> 'outcome' as confirmation,
    coalesce(c.result ->> 'sentence', c.why) as confirmation_sentence,
    (c.result ->> 'ratio')::double precision as confirmation_ratio,
    (c.result ->> 'low')::double precision as confirmation_low,
    (c.result ->> 'high')::double precision as confirmation_high,
    (c.result ->> 'rounds')::integer as confirmation_rounds,
    e.kind as cause,
    e.suspect as cause_suspect,
    e.sentence as cause_sentence,
    e.evidence,
    e.group_key,
    coalesce(k.severity, 'high') as severity,
    coalesce(k.because, 'is new') as severity_because,
    coalesce(k.rank, 0) as rank,
    coalesce(k.place, 1) as place,
    v.since,
    coalesce(v.last_good_run_id, e.last_good_run_id) as last_good_run_id,
    coalesce(v.first_bad_run_id, e.first_bad_run_id) as first_bad_run_id,
    latest.low as change_low,
    latest.high as change_high,
    news.change as notified_change,
    news.low as notified_low,
    latest.level_change,
    a.metric,
    news.high as notified_high
from raw.alert as a
inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
inner join raw.run as opened on a.opened_run_id = opened.run_id
-- Verdicts one at a time: for some hundred alerts, a join would read those of all years.
left join lateral (
    select n.*
    from raw.verdict as n
    where
        n.run_key = opened.run_key
        and n.run_at = opened.started_at
        and n.series_key = s.series_key
        and n.metric = a.metric
    order by n.run_at desc
    limit 1
) as v on true
inner join raw.run as last_run on a.last_run_id = last_run.run_id
left join lateral (
    select n.*
    from raw.verdict as n
    where
        n.run_key = last_run.run_key
        and n.run_at = last_run.started_at
        and n.series_key = s.series_key
        and n.metric = a.metric
    order by n.run_at desc
    limit 1
) as latest on true
inner join raw.run as news_run on a.news_run_id = news_run.run_id
left join raw.delivery as told
    on
        told.kind = 'alert'
        and a.alert_id::text = told.subject
        and a.news_run_id = told.news
        and told.channel = ''
left join lateral (
    select n.*
    from raw.verdict as n
    where
        n.run_key = news_run.run_key
        and n.run_at = news_run.started_at
        and n.series_key = s.series_key
        and n.metric = a.metric
        and told.at is not null
    order by n.run_at desc
    limit 1
) as news on true
left join lateral (
    select u.*
    from raw.alert_cause as u
    where u.alert_id = a.alert_id
    order by u.at desc
    limit 1
) as e on true
left join raw.alert_rank as k on a.alert_id = k.alert_id
left join lateral (
    select r.*
    from raw.experiment as r
    where
        r.alert_id = a.alert_id
        and r.kind = 'confirm'
    order by r.experiment_id desc
    limit 1
) as c on true;

comment on view marts.fct_alert is
'One row per alert; at most one live alert for each series and metric';
comment on column marts.fct_alert.metric is
'Metric of the alert, by its column in marts.fct_measurement: value and baseline refer to it. '
'training: the losses';
comment on column marts.fct_alert.first_bad_run_id is
'First night at the new level, according to the verdict that opened the alert, otherwise '
'according to its cause';
comment on column marts.fct_alert.last_good_run_id is
'Last good night before the change, according to the same source as first_bad_run_id';
comment on column marts.fct_alert.change is 'value / baseline - 1 of the latest night';
comment on column marts.fct_alert.change_low is
'Lower end of the 90 % interval of level_change';
comment on column marts.fct_alert.notified_at is
'Time at which the message was sent, or found to have no channel; null if it is not sent yet';
comment on column marts.fct_alert.notified_change is
'Change that was notified; null while the alert waits for its message';
comment on column marts.fct_alert.notified_low is
'End of the notified 90 % interval with the larger drop';
comment on column marts.fct_alert.notified_high is
'Other end of the notified 90 % interval, with the larger increase, which is worse for energy '
'and memory';
comment on column marts.fct_alert.evidence is
'Observations about the cause: text, is_against, and the rival cause that it concerns or null';
comment on column marts.fct_alert.severity is
'Severity of its group when a night was judged last; high if none was since it opened';
comment on column marts.fct_alert.severity_because is 'Reason for the severity';
comment on column marts.fct_alert.rank is 'Order of groups, the lowest first';
comment on column marts.fct_alert.place is 'Order in its group, from 1 for the worst alert';
comment on column marts.fct_alert.group_key is
'Key that is equal for alerts of one cause; empty or null if the alert is not in a group';
comment on column marts.fct_alert.confirmation is
'Outcome of the newest confirmation: confirmed, not_confirmed or inconclusive; null if it has no '
'outcome';
comment on column marts.fct_alert.confirmation_sentence is
'The outcome in words, or why it was not measured again';
comment on column marts.fct_alert.confirmation_ratio is
'Throughput of the candidate / throughput of the last good build';
comment on column marts.fct_alert.confirmation_low is
'Lower end of the 95 % interval of confirmation_ratio';
comment on column marts.fct_alert.confirmation_high is
'Upper end of the 95 % interval of confirmation_ratio';
comment on column marts.fct_alert.confirmation_rounds is
'Pairs, or launches of one build, that counted';
