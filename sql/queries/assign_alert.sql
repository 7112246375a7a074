-- A person says whose an alert is.
select
    triage.assign_alert(
        %(alert_id)s,
        %(owner)s,
        %(by_whom)s,
        %(why)s
    ) as was;
