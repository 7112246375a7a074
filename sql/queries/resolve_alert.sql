-- Ends the live alert of a series. Gives one row where there was one.
select alert.alert_id
from raw.alert
cross join
    lateral triage.resolve_by_run(
        alert.alert_id,
        %(run_id)s,
        'recovered on two nights'
    ) as ended (is_done)
where
    alert.case_id = %(case_id)s
    and alert.cluster = %(cluster)s
    and alert.state in ('open', 'acknowledged')
    and ended.is_done;
