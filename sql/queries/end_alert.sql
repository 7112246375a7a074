-- A night ends an alert, or the event of a dismissed one. Gives one row where it did.
select ended.is_done
from triage.resolve_by_run(%(alert_id)s, %(run_id)s, %(why)s) as ended (is_done)
where ended.is_done;
