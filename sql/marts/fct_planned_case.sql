-- Grain: one row per run and planned case, with what came of it.
create or replace view marts.fct_planned_case as
with results as (
    select
        *,
        case
            when left_out is not null then 'left_out'
            when status is null and loaded_at is null then 'not_loaded'
            when status is null then 'missing'
            when status <> 'ok' then status
            when is_good then 'measured'
            else 'quarantined'
        end as outcome,
        coalesce(left_out, reasons -> 0, quarantine_reasons -> 0) as reason
    from staging.result
)

select
    p.run_id,
    p.case_id,
    p.cluster,
    p.suite,
    p.run_kind,
    p.started_at,
    p.is_imported,
    p.workload,
    p.framework,
    p.build_id,
    p.is_private_build,
    p.untried,
    p.outcome,
    p.reason ->> 'code' as code,
    p.reason ->> 'node' as node,
    p.reason ->> 'subject' as subject,
    p.reason ->> 'observed' as observed,
    p.reason ->> 'expected' as expected,
    p.n,
    p.elapsed_s
from results as p;

comment on view marts.fct_planned_case is
'One row per run and planned case with its outcome: measured, or the reason why not';
comment on column marts.fct_planned_case.outcome is
'measured, quarantined (a check refused it), failed, cancelled, unavailable, left_out (the night '
'had no room), missing (nothing came), not_loaded (nothing of its run is loaded)';
comment on column marts.fct_planned_case.code is
'First reason why there is no value; marts.fct_reason has all of them';
comment on column marts.fct_planned_case.node is 'Node that the reason is about; null if none';
comment on column marts.fct_planned_case.subject is
'Process, check or device that the reason is about; null if none';
comment on column marts.fct_planned_case.observed is 'Observed value';
comment on column marts.fct_planned_case.expected is 'Expected value';
comment on column marts.fct_planned_case.n is 'Number of good repeats; null without a result';
