-- Grain: one row per dismissed alert about training.
create or replace view staging.accepted_training as
select
    s.series_key,
    a.dismissed_as,
    opened.started_at as since,
    greatest(opened.started_at, latest.started_at) as until
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
inner join raw.run as latest on a.last_run_id = latest.run_id
inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
where
    a.metric = 'training'
    and a.state = 'dismissed';

comment on view staging.accepted_training is
'Changed nights that a user has accepted: the nights that a dismissed alert reported. A night '
'that was judged after the dismissal is not among them';
comment on column staging.accepted_training.series_key is 'The series';
comment on column staging.accepted_training.dismissed_as is
'false_alarm: earlier nights are compared, too; otherwise only nights from `since` on';
comment on column staging.accepted_training.since is 'Start of the run that opened the alert';
comment on column staging.accepted_training.until is
'Start of the last run that the alert reported';
