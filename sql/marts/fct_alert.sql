-- Grain: one row per alert, live or closed.
create or replace view marts.fct_alert as
select
    alert_id,
    case_id,
    cluster,
    kind as verdict,
    state,
    sentence,
    value,
    baseline,
    change,
    opened_run_id,
    opened_at,
    last_run_id,
    resolved_run_id,
    closed_at,
    told_at,
    dismissed_as,
    snoozed_until,
    owner,
    news_run_id,
    suspect,
    suspect_run_id,
    suspect_at
from raw.alert;

comment on view marts.fct_alert is 'One row per alert; at most one live alert for each series';
