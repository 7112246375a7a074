-- Grain: one row per run and planned case, with what came of it.
create or replace view marts.fct_planned_case as
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
    p.outcome,
    w.reason ->> 'code' as code,
    w.reason ->> 'node' as node,
    w.reason ->> 'subject' as subject,
    w.reason ->> 'observed' as observed,
    w.reason ->> 'expected' as expected,
    p.n,
    p.elapsed_s
from (
    select
        r.*,
        case
            when r.left_out is not null then 'left_out'
            when r.status is null and r.loaded_at is null then 'not_loaded'
            when r.status is null then 'missing'
            when r.status <> 'ok' then r.status
            when r.is_good then 'measured'
            else 'quarantined'
        end as outcome
    from staging.result as r
) as p
cross join lateral (
    select coalesce(p.left_out, p.reasons -> 0, p.quarantine_reasons -> 0) as reason
) as w;

comment on view marts.fct_planned_case is
'One row per run and planned case with what came of it: measured, or why not';
comment on column marts.fct_planned_case.outcome is
'measured, quarantined (a check refused it), failed, cancelled, unavailable, left_out (the night '
'had no room), missing (nothing came), not_loaded (nothing of its run is loaded)';
comment on column marts.fct_planned_case.code is
'First reason why there is no figure; marts.fct_reason has all of them';
comment on column marts.fct_planned_case.node is 'Node that the reason is about; null where none';
comment on column marts.fct_planned_case.subject is
'Process, check or device that the reason is about; null where none';
comment on column marts.fct_planned_case.observed is 'What was found';
comment on column marts.fct_planned_case.expected is 'What should have been found';
comment on column marts.fct_planned_case.n is 'Good repeats; null where nothing came';
