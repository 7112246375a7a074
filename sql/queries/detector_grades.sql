-- The newest grade of each suite and cluster, of runs that began before `before`.
with newest as (
    select distinct on (suite, cluster) run_id
    from marts.detector_grade
    where
        (%(suite)s::text is null or suite = %(suite)s)
        and (%(cluster)s::text is null or cluster = %(cluster)s)
        and (%(before)s::timestamptz is null or started_at < %(before)s)
    order by suite asc, cluster asc, started_at desc, run_id desc
)

select g.*
from marts.detector_grade as g
inner join newest on g.run_id = newest.run_id
order by g.suite, g.cluster, g.measure;
