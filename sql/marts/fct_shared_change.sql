-- Grain: one row per run and shared change of many series.
create or replace view marts.fct_shared_change as
select
    m.run_id,
    r.suite,
    r.cluster,
    r.started_at,
    m.factor,
    m.name,
    m.since,
    m.change,
    m.low,
    m.high,
    m.members,
    m.series,
    m.controls,
    m.controls_changed,
    m.sentence,
    m.alert_id
from raw.shared_change as m
inner join raw.run as r on m.run_id = r.run_id;

comment on view marts.fct_shared_change is 'One row per run and shared change of many series';
comment on column marts.fct_shared_change.change is
'Relative change of the level; below 0 is slower';
comment on column marts.fct_shared_change.alert_id is
'Alert of the shared change; null for an increase, or if all series are noisy';
