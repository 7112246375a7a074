-- A person moves an alert. Gives the state before.
select
    triage.move_alert(
        %(alert_id)s,
        %(to_state)s,
        %(by_whom)s,
        %(why)s,
        %(reason)s
    ) as was;
