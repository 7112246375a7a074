-- The history of an alert, oldest first.
select *
from marts.fct_alert_event
where alert_id = %(alert_id)s
order by event_id;
