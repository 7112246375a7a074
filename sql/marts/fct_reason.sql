-- Grain: one row per reason for which a repeat, or a case of a run, does not count: it failed, was
-- disturbed, quarantined, cancelled, unavailable, or left out of a night.
create or replace view marts.fct_reason as
with told as (
    select
        run_id,
        case_id,
        generation,
        repeat,
        status,
        false as is_quarantine,
        reasons
    from staging.repeat
    union all
    select
        run_id,
        case_id,
        generation,
        repeat,
        status,
        true as is_quarantine,
        quarantine_reasons as reasons
    from staging.repeat
    union all
    select
        run_id,
        case_id,
        generation,
        null as repeat,
        status,
        false as is_quarantine,
        reasons
    from staging.measurement
    union all
    select
        run_id,
        case_id,
        generation,
        null as repeat,
        status,
        true as is_quarantine,
        quarantine_reasons as reasons
    from staging.measurement
)

select
    t.run_id,
    t.case_id,
    r.cluster,
    t.generation,
    t.repeat,
    r.suite,
    r.run_kind,
    r.started_at,
    p.workload,
    p.framework,
    t.status,
    t.is_quarantine,
    e.ordinal,
    e.reason ->> 'code' as code,
    e.reason ->> 'node' as node,
    e.reason ->> 'subject' as subject,
    e.reason ->> 'observed' as observed,
    e.reason ->> 'expected' as expected
from told as t
cross join lateral jsonb_array_elements(t.reasons) with ordinality as e (reason, ordinal)
inner join staging.run as r on t.run_id = r.run_id
inner join staging.planned_case as p on t.run_id = p.run_id and t.case_id = p.case_id;

comment on view marts.fct_reason is
'One row per reason for which a repeat, or a case of a run, does not count';
comment on column marts.fct_reason.repeat is 'Null: the reason is of the case as a whole';
comment on column marts.fct_reason.subject is
'The process, check, device or address that it is about; null where it is about none';
comment on column marts.fct_reason.is_quarantine is
'A check refused the figure; else the measurement itself says why there is none';
