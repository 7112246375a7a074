-- Regressions that a run has to tell of and that nobody has been told of yet.
select
    alert_id,
    case_id,
    value,
    baseline,
    change
from marts.fct_alert
where
    news_run_id = %(run_id)s
    and verdict = 'regressed'
    and state in ('open', 'acknowledged')
    and told_at is null
    and (snoozed_until is null or snoozed_until <= now())
order by change, case_id;
