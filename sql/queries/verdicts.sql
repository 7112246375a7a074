-- The verdicts of a run.
select
    case_id,
    cluster,
    run_id,
    verdict,
    sentence,
    value,
    baseline,
    change,
    history_nights,
    smallest_slowdown,
    low,
    high,
    since,
    first_bad_run_id,
    last_good_run_id
from marts.fct_verdict
where run_id = %(run_id)s
order by case_id;
