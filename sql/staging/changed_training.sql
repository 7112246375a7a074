-- Grain: one row per period in which a series trained otherwise.
-- It is the period of a live alert, or a night without an alert (unproved series,
-- `policy.training: warn`) that no dismissed alert covers; or a night of `reopened_training`.
create or replace view staging.changed_training as
select
    s.series_key,
    opened.started_at as since,
    a.alert_id,
    'infinity'::timestamptz as until
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
where
    a.metric = 'training'
    and a.state in ('open', 'acknowledged')
union all
select
    v.series_key,
    v.run_at as since,
    null as alert_id,
    v.run_at as until
from raw.verdict as v
where
    v.training = 'changed'
    and not exists (
        select from staging.accepted_training as a
        where a.series_key = v.series_key and v.run_at between a.since and a.until
    )
union all
select
    series_key,
    run_at as since,
    null as alert_id,
    run_at as until
from staging.reopened_training;

comment on view staging.changed_training is
'Periods in which series trained differently. Their nights do not count until a user accepts '
'the change';
comment on column staging.changed_training.since is
'Start of the run that opened the alert, or of the night';
comment on column staging.changed_training.alert_id is
'Live alert about training; null without such an alert';
comment on column staging.changed_training.until is
'End of the period: the same night, or infinity while an alert is live';
comment on column staging.changed_training.series_key is 'The series';
