-- A person keeps an alert quiet until a time.
select
    triage.snooze_alert(
        %(alert_id)s,
        %(until)s,
        %(by_whom)s,
        %(why)s
    ) as was;
