-- Grain: one row per live alert about training, with its series.
create or replace view staging.changed_training as
select
    s.series_key,
    opened.started_at as since,
    a.alert_id
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
where
    a.metric = 'training'
    and a.state in ('open', 'acknowledged');

comment on view staging.changed_training is
'Series that train otherwise than before. Their nights since then are no result until a user '
'accepts';
comment on column staging.changed_training.since is 'Start of the run that opened the alert';
comment on column staging.changed_training.alert_id is 'The alert about training';
comment on column staging.changed_training.series_key is 'The series';
