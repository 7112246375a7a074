-- Nights that schedules promised, newest first. A null parameter does not constrain.
select *
from marts.fct_night
where
    (%(suite)s::text is null or suite = %(suite)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
    and (%(states)s::text[] is null or state = any(%(states)s))
    and (%(since)s::timestamptz is null or scheduled_at >= %(since)s)
order by scheduled_at desc, suite asc
limit %(max_rows)s;
