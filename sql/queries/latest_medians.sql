-- The newest median of each series. A null parameter does not constrain; drills and
-- what was measured to confirm never show.
select distinct on (case_id, cluster) *
from marts.fct_measurement
where
    (%(suite)s::text is null or suite = %(suite)s)
    and (%(cluster)s::text is null or cluster = %(cluster)s)
    and (%(run_id)s::text is null or run_id = %(run_id)s)
    and (run_kind not in ('drill', 'confirm') or run_id = %(run_id)s)
order by case_id asc, cluster asc, started_at desc, run_id desc;
