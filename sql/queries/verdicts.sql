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
    smallest_slowdown
from marts.fct_verdict
where run_id = %(run_id)s
order by case_id;
