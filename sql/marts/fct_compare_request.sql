-- Grain: one row per comparison that somebody requested.
create or replace view marts.fct_compare_request as
select
    request_id,
    state,
    a,
    b,
    suite,
    cluster,
    cases,
    rounds,
    min_effect,
    budget_s,
    priority,
    note,
    change_url,
    change_commit,
    is_fork,
    requested_by,
    requested_at,
    queued_at,
    estimate_s,
    decided_by,
    cancelled_by,
    replaced_by,
    dag_run_id,
    comparison_id,
    started_at,
    ended_at,
    spent_s,
    why,
    result ->> 'verdict' as verdict,
    result,
    profile,
    spent_at
from raw.compare_request;

comment on view marts.fct_compare_request is
'One row per comparison of two builds that somebody requested; verdict where state is done';
comment on column marts.fct_compare_request.verdict is
'What B is beside A: faster, same, slower or inconclusive; null until it is done';
