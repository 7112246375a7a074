-- What was dismissed has become worse. Gives one row where it was still dismissed.
select reopened.is_done
from
    triage.reopen_by_run(
        %(alert_id)s,
        %(kind)s,
        %(sentence)s,
        %(value)s,
        %(baseline)s,
        %(change)s,
        %(run_id)s
    ) as reopened (is_done)
where reopened.is_done;
