-- What was measured again, or is to be, with the series, the largest fall first. A null parameter
-- does not constrain.
select
    c.confirmation_id,
    c.alert_id,
    c.run_id,
    a.case_id,
    a.cluster,
    c.state,
    c.asked_by,
    c.comparison_id,
    c.outcome,
    c.sentence,
    c.ratio,
    c.low,
    c.high,
    c.rounds,
    c.asked_at,
    c.until,
    c.ended_at,
    c.detail,
    c.until <= now() as is_overdue
from raw.confirmation as c
inner join raw.alert as a on c.alert_id = a.alert_id
where
    (%(run_id)s::text is null or c.run_id = %(run_id)s)
    and (%(alert_id)s::bigint is null or c.alert_id = %(alert_id)s)
    and (%(confirmation_id)s::bigint is null or c.confirmation_id = %(confirmation_id)s)
    and (%(states)s::text[] is null or c.state = any(%(states)s))
order by (c.detail ->> 'change')::double precision asc, c.confirmation_id asc;
