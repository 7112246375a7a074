-- Grain: one row per run and judged case.
create or replace view marts.fct_verdict as
select
    s.case_id,
    s.cluster,
    r.run_id,
    r.suite,
    r.run_kind,
    v.run_at as started_at,
    s.workload,
    s.framework,
    s.strategy,
    v.kind as verdict,
    v.sentence,
    v.value,
    v.baseline,
    v.change,
    v.history as history_nights,
    m.unit,
    m.framework_version,
    coalesce(m.quarantine_reasons is not null, false) as is_quarantined,
    v.smallest_slowdown,
    v.low,
    v.high,
    v.since,
    v.first_bad_run_id,
    v.last_good_run_id,
    v.series_key,
    v.run_key,
    v.level_change,
    v.metric,
    v.training,
    v.training_sentence
from raw.verdict as v
-- As marts.fct_measurement joins it.
inner join raw.run as r
    on v.run_key = r.run_key and v.run_at >= r.started_at and v.run_at <= r.started_at
inner join staging.series as s on v.series_key = s.series_key
left join raw.measurement as m
    on
        v.run_key = m.run_key
        and v.series_key = m.series_key
        and v.run_at = m.run_at
        and not m.is_superseded;

comment on view marts.fct_verdict is 'One row per run and judged case';
comment on column marts.fct_verdict.is_quarantined is 'A check rejected the judged value';
