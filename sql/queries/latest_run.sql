-- The newest run that was not imported. A null parameter does not constrain.
select run_id
from staging.run
where
    not is_imported
    and (%(suite)s::text is null or suite = %(suite)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
order by started_at desc, run_id desc
limit 1;
