-- The turns of series to noisy or back to steady, newest first. A null parameter does not
-- constrain.
select *
from marts.fct_noise_event
where
    (%(run_id)s::text is null or run_id = %(run_id)s)
    and (%(suite)s::text is null or suite = %(suite)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
    and (%(until)s::timestamptz is null or at <= %(until)s)
    and (not %(untold)s or told_at is null)
order by at desc, case_id asc
limit %(max_rows)s;
