-- Grain: one row per reason why a repeat, or a case of a run, does not count. It failed, was
-- disturbed, quarantined, cancelled, unavailable, or left out of a night.
create or replace view marts.fct_reason as
with told as (
    select
        run_key,
        series_key,
        run_at,
        generation,
        repeat,
        status,
        reasons,
        quarantine_reasons
    from raw.repeat
    union all
    select
        run_key,
        series_key,
        run_at,
        generation,
        null as repeat,
        status,
        reasons,
        quarantine_reasons
    from raw.measurement
    where not is_superseded
)

select
    r.run_id,
    s.case_id,
    r.cluster,
    t.generation,
    t.repeat,
    r.suite,
    r.run_kind,
    r.started_at,
    s.workload,
    s.framework,
    t.status,
    w.is_quarantine,
    e.ordinal,
    e.reason ->> 'code' as code,
    e.reason ->> 'node' as node,
    e.reason ->> 'subject' as subject,
    e.reason ->> 'observed' as observed,
    e.reason ->> 'expected' as expected
from told as t
cross join
    lateral (values (false, t.reasons), (true, t.quarantine_reasons)) as w (is_quarantine, reasons)
cross join lateral jsonb_array_elements(w.reasons) with ordinality as e (reason, ordinal)
inner join raw.run as r on t.run_key = r.run_key and t.run_at = r.started_at
inner join staging.series as s on t.series_key = s.series_key;

comment on view marts.fct_reason is
'One row per reason for which a repeat, or a case of a run, does not count';
comment on column marts.fct_reason.repeat is
'Number of the repeat; null if the reason is about the whole case';
comment on column marts.fct_reason.subject is
'The process, check, device or address that it is about; null if it is about none';
comment on column marts.fct_reason.is_quarantine is
'A check rejected the value; else the measurement itself reports why there is none';
comment on column marts.fct_reason.generation is 'Generation of the result';
comment on column marts.fct_reason.status is 'How the repeat or the case ended';
comment on column marts.fct_reason.ordinal is
'Number of the reason, from 1: the first reason weighs most';
comment on column marts.fct_reason.code is 'The reason';
comment on column marts.fct_reason.node is
'Node that the reason is about; null if it is about no node';
comment on column marts.fct_reason.observed is 'Observed value';
comment on column marts.fct_reason.expected is 'Expected value';
