-- Grain: one row per series that creeps now; no night of it is a regression.
create or replace view marts.drifting_series as
select
    case_id,
    cluster,
    suite,
    run_id,
    at,
    change,
    error,
    nights,
    since,
    is_news,
    seen_run_id,
    seen_at
from marts.fct_drift
where over_at is null;

comment on view marts.drifting_series is
'One row per series that drifts now; no night of it is a regression';
