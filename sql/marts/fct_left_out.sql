-- Grain: one row per run and case that its night had no room for: left out beforehand, or ended
-- by the window before enough repeats were good.
create or replace view marts.fct_left_out as
select
    p.case_id,
    p.cluster,
    p.run_id,
    p.suite,
    p.run_kind,
    p.started_at,
    p.workload,
    p.framework,
    coalesce(p.n, 0) as n,
    l.reason ->> 'code' as code,
    l.reason ->> 'observed' as observed,
    l.reason ->> 'expected' as expected
from staging.result as p
cross join lateral coalesce(p.left_out, p.reasons -> 0) as l (reason)
where p.left_out is not null or p.status = 'left_out';

comment on view marts.fct_left_out is
'One row per run and case that did not fit into its night; such cases are neither failed nor '
'missing';
comment on column marts.fct_left_out.observed is 'Duration of the case, or its progress';
comment on column marts.fct_left_out.expected is 'Time that the night had, or time that was needed';
comment on column marts.fct_left_out.n is
'Number of good repeats; they are stored, but too few to count';
comment on column marts.fct_left_out.code is 'Reason as a code';
