-- Grain: one row per night that trained as a change which a user accepted and then did not.
-- It was judged as the same after the alert had opened. Either the alert is live, or it has ended
-- since and had been dismissed before: a night that is the same ends every other alert.
create or replace view staging.reopened_training as
select
    s.series_key,
    v.run_key,
    v.run_at
from raw.alert as a
inner join raw.run as opened on a.opened_run_id = opened.run_id
left join raw.run as resolved on a.resolved_run_id = resolved.run_id
inner join raw.series as s on a.case_id = s.case_id and a.cluster = s.cluster
inner join raw.verdict as v
    on
        s.series_key = v.series_key
        and opened.started_at <= v.run_at
        and coalesce(resolved.started_at, 'infinity') > v.run_at
where
    a.metric = 'training'
    and v.training = 'same'
    and (
        a.state in ('open', 'acknowledged')
        or a.state = 'resolved'
        and a.resolved_run_id is not null
        and exists (
            select from raw.alert_event as e
            where e.alert_id = a.alert_id and e.to_state = 'dismissed'
        )
    );

comment on view staging.reopened_training is
'Nights that trained as a change that a user accepted, if the alert was opened again since';
comment on column staging.reopened_training.series_key is 'The series';
comment on column staging.reopened_training.run_key is 'Run of the night';
comment on column staging.reopened_training.run_at is 'Start of this run';
