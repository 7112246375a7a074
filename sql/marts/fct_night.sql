-- Grain: one row per suite, cluster and time of the schedule, from the start of the night on.
create or replace view marts.fct_night as
select
    suite,
    cluster,
    scheduled_at,
    due_at,
    why,
    state,
    sentence,
    run_id,
    without,
    cardinality(without) as cases_without,
    is_empty,
    is_silence,
    missing_at,
    ended_at,
    checked_at
from raw.night;

comment on view marts.fct_night is
'One row per suite and night that its schedule expects, with the state of the night';
comment on column marts.fct_night.cases_without is
'Number of cases in `without`';
