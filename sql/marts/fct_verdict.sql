-- Grain: one row per run and judged case.
create or replace view marts.fct_verdict as
select
    v.case_id,
    v.cluster,
    v.run_id,
    r.suite,
    r.run_kind,
    r.started_at,
    p.workload,
    p.framework,
    p.strategy,
    v.kind as verdict,
    v.sentence,
    v.value,
    v.baseline,
    v.change,
    v.history as history_nights,
    m.unit,
    m.framework_version,
    coalesce(m.is_quarantined, false) as is_quarantined,
    v.smallest_slowdown,
    v.low,
    v.high,
    v.since,
    v.first_bad_run_id,
    v.last_good_run_id
from raw.verdict as v
inner join staging.run as r on v.run_id = r.run_id
inner join staging.planned_case as p
    on v.run_id = p.run_id and v.case_id = p.case_id
left join staging.measurement as m
    on v.run_id = m.run_id and v.case_id = m.case_id;

comment on view marts.fct_verdict is 'One row per run and judged case';
comment on column marts.fct_verdict.change is 'value / baseline - 1';
comment on column marts.fct_verdict.low is
'With high: 95 % interval of the level''s relative change';
comment on column marts.fct_verdict.last_good_run_id is
'Last run before the change; of a failed or missing case the last one with a value';
comment on column marts.fct_verdict.smallest_slowdown is
'Smallest relative fall that would be found within a week in nine of ten cases';
