-- Grain: one row per run and movement that many of its series share.
create or replace view marts.fct_shared_movement as
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
    m.controls_moved,
    m.sentence,
    m.alert_id
from raw.shared_movement as m
inner join raw.run as r on m.run_id = r.run_id;

comment on view marts.fct_shared_movement is 'One row per run and shared change of many series';
comment on column marts.fct_shared_movement.change is
'Relative change of the level; below 0 is slower';
comment on column marts.fct_shared_movement.alert_id is
'Its only alert; null: an increase, or noisy series only';
