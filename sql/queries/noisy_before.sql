-- The series of a cluster that were noisy when a night began: its own turn does not count.
select case_id
from (
    select distinct on (case_id)
        case_id,
        what
    from marts.fct_noise_event
    where
        cluster = %(cluster)s
        and run_id <> %(run_id)s
        and at < %(at)s
    order by case_id asc, at desc, run_id desc
) as newest
where what = 'noisy';
