-- Ends the live alert of a series. Gives one row where there was one.
update raw.alert
set
    state = 'resolved',
    resolved_run_id = %(run_id)s,
    closed_at = now()
where
    case_id = %(case_id)s
    and cluster = %(cluster)s
    and state in ('open', 'acknowledged')
returning alert_id;
