-- A live alert that another run confirms: kind, sentence and figures follow the latest run.
select alert.alert_id
from raw.alert
cross join
    lateral triage.continue_alert(
        alert.alert_id,
        %(kind)s,
        %(sentence)s,
        %(value)s,
        %(baseline)s,
        %(change)s,
        %(run_id)s
    ) as continued (is_done)
where
    alert.case_id = %(case_id)s
    and alert.cluster = %(cluster)s
    and alert.state in ('open', 'acknowledged')
    and continued.is_done;
