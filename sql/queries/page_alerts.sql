-- Alerts with what their case is, newest first: for the pages. A null parameter does not
-- constrain. What was planned is asked of the run that opened the alert.
select
    a.*,
    c.workload,
    c.framework,
    c.unit
from marts.fct_alert as a
left join staging.planned_case as c on a.opened_run_id = c.run_id and a.case_id = c.case_id
where
    (%(states)s::text[] is null or a.state = any(%(states)s))
    and (%(cluster)s::text is null or a.cluster = %(cluster)s)
    and (%(framework)s::text is null or c.framework = %(framework)s)
    and (%(alert_id)s::bigint is null or a.alert_id = %(alert_id)s)
    and (%(group_key)s::text is null or a.group_key = %(group_key)s)
order by a.opened_at desc, a.alert_id desc
limit %(max_rows)s;
