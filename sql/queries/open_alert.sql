-- Opens an alert unless the series has a live one, or this run opened one before.
-- Gives one row where the alert is new.
select opened.alert_id
from
    triage.open_alert(
        %(case_id)s,
        %(cluster)s,
        %(kind)s,
        %(sentence)s,
        %(value)s,
        %(baseline)s,
        %(change)s,
        %(run_id)s
    ) as opened (alert_id)
where opened.alert_id is not null;
