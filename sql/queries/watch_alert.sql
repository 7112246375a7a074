-- One night's suspicion that a second one has to confirm.
select triage.watch_alert(%(alert_id)s, %(suspect)s, %(run_id)s);
