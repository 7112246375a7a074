-- From which state to which alerts were moved, by whom and why, oldest first.
select
    alert_id,
    what,
    to_state,
    by_whom,
    why
from marts.fct_alert_event
where what = 'moved'
order by event_id;
