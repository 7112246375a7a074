-- Every alert on a fall: the night that opened it, and the last one that said the same.
select
    a.alert_id,
    a.case_id,
    a.cluster,
    a.dismissed_as,
    opened.started_at as opened_at,
    latest.started_at as last_at
from marts.fct_alert as a
inner join staging.run as opened on a.opened_run_id = opened.run_id
inner join staging.run as latest on a.last_run_id = latest.run_id
where a.verdict = 'regressed'
order by a.alert_id;
