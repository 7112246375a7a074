-- Bisects, newest first. A null parameter does not constrain.
select *
from marts.fct_bisect
where
    (%(bisect_id)s::text is null or bisect_id = %(bisect_id)s)
    and (%(alert_id)s::bigint is null or alert_id = %(alert_id)s)
order by started_at desc, bisect_id desc
limit %(max_rows)s;
