-- What a night holds its verdicts against: live alerts, and dismissed ones whose event goes on.
select *
from marts.fct_alert
where
    cluster = %(cluster)s
    and (
        state in ('open', 'acknowledged')
        or (state = 'dismissed' and resolved_run_id is null)
    )
order by opened_at asc, alert_id asc;
