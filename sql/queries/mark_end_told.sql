-- That a run ended an alert has been told, or has no channel.
update raw.alert
set end_told_at = clock_timestamp()
where
    alert_id = %(alert_id)s
    and resolved_run_id = %(of_run_id)s;
