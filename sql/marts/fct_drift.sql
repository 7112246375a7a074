-- Grain: one row per series and night that found it to creep, to have crept on, or turned.
create or replace view marts.fct_drift as
select
    d.case_id,
    d.cluster,
    d.run_id,
    r.suite,
    d.at,
    d.change,
    d.error,
    d.nights,
    d.since,
    d.level,
    d.is_news,
    d.seen_run_id,
    d.seen_at,
    d.over_run_id,
    d.over_at
from raw.drift as d
inner join raw.run as r on d.run_id = r.run_id;

comment on view marts.fct_drift is
'One row per series and night that found it to drift, to drift further, or to change direction';
comment on column marts.fct_drift.change is
'Relative change from night since to night seen_at; below 0 is slower';
comment on column marts.fct_drift.is_news is 'A drop of policy.min_change or more: notified once';
comment on column marts.fct_drift.over_at is
'Null while the drift lasts; otherwise the night that ended it or replaced it by a newer row';
