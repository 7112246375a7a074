-- Gives a new alert its owner. One row where it did.
select routed.is_done
from triage.route_alert(%(alert_id)s, %(owner)s, %(run_id)s) as routed (is_done)
where routed.is_done;
