-- Opens an alert unless the series has a live one, or this run opened one before.
-- Gives one row where the alert is new.
insert into raw.alert (
    case_id,
    cluster,
    kind,
    sentence,
    value,
    baseline,
    change,
    opened_run_id,
    last_run_id
)
values (
    %(case_id)s,
    %(cluster)s,
    %(kind)s,
    %(sentence)s,
    %(value)s,
    %(baseline)s,
    %(change)s,
    %(run_id)s,
    %(run_id)s
)
on conflict do nothing
returning alert_id;
