-- Grades of the detector, on copies of series with and without injected slowdowns.

-- name: mark_grade_news*!
-- Marks a grade as news.
update raw.detector_grade
set is_news = true
where run_id = :run_id and measure = :measure and not is_news;

-- name: detector_grades(suite, cluster, before)
-- The newest grade of each suite and cluster, of runs that began before `before`.
with suites as (
    select distinct
        suite,
        cluster
    from raw.run
    where
        (:suite::text is null or suite = :suite)
        and (:cluster::text is null or cluster = :cluster)
),

newest as (
    select n.run_id
    from suites as s
    cross join lateral (
        select r.run_id
        from raw.run as r
        where
            r.suite = s.suite
            and r.cluster = s.cluster
            and (:before::timestamptz is null or r.started_at < :before)
            and exists (
                select from raw.detector_grade as d
                where d.run_id = r.run_id
            )
        order by r.started_at desc, r.run_id desc
        limit 1
    ) as n
)

select g.*
from marts.detector_grade as g
inner join newest on g.run_id = newest.run_id
order by g.suite, g.cluster, g.measure;
