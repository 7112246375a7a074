-- Alerts, newest first. A null parameter does not constrain.
select *
from marts.fct_alert
where
    (%(states)s::text[] is null or state = any(%(states)s))
    and (%(case_id)s::text is null or case_id = %(case_id)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
    and (%(alert_id)s::bigint is null or alert_id = %(alert_id)s)
    and (%(group_key)s::text is null or group_key = %(group_key)s)
order by opened_at desc, alert_id desc
limit %(max_rows)s;
