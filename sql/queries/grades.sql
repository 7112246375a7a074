-- Grades of the detector, from slowdowns that are planted into copies of series (shadows).

-- name: shadow_progress(suite, cluster, since)
-- How far each shadow of a suite on a cluster has been judged.
select
    s.case_id,
    v.month,
    v.shadow,
    v.night,
    v.judged_at,
    v.regressed_at,
    v.is_decided
from (
    -- By the integer key first: sorting by names of cases takes longer than all else.
    select
        series_key,
        month,
        shadow,
        max(night) as night,
        max(at) as judged_at,
        max(at) filter (where kind = 'regressed') as regressed_at,
        bool_or(coalesce(outcome in ('caught', 'missed', 'spoiled'), false)) as is_decided
    from raw.shadow_verdict
    where
        suite = :suite
        and month >= :since
    group by series_key, month, shadow
) as v
inner join raw.series as s on v.series_key = s.series_key
where s.cluster = :cluster;

-- name: shadow_counts(suite, cluster, since, until, watched, month, month_begins)
-- Outcomes of the shadows of a suite on a cluster, after `since` and up to `until`.
-- A planted slowdown counts only after it has had all its nights: one that is caught is decided at
-- once, one that is missed only after so many nights.
with recursive judged_nights as (
    -- From night to night in the index: each has thousands of shadows.
    (
        select v.at
        from raw.shadow_verdict as v
        inner join raw.series as s on v.series_key = s.series_key
        where
            v.suite = :suite
            and s.cluster = :cluster
            and v.at > :since
            and v.at <= :until
        order by v.at desc
        limit 1
    )
    union all
    select
        (
            select v.at
            from raw.shadow_verdict as v
            inner join raw.series as s on v.series_key = s.series_key
            where
                v.suite = :suite
                and s.cluster = :cluster
                and v.at > :since
                and v.at < n.at
            order by v.at desc
            limit 1
        ) as at
    from judged_nights as n
    where n.at is not null
),

last_planted as (
    select at
    from judged_nights
    where at is not null
    order by at desc
    limit 1 offset :watched - 1
),

-- A window instead of a join: right after a suite's first night there are no statistics yet.
-- Whole months, and one before: the first night of a shadow is among them or too early to count.
planted as (
    select
        v.shadow,
        v.night,
        v.at,
        v.outcome,
        min(v.at) over (partition by v.series_key, v.month, v.shadow) as planted_at
    from raw.shadow_verdict as v
    inner join raw.series as s on v.series_key = s.series_key
    where
        v.suite = :suite
        and s.cluster = :cluster
        and v.month >= :month
        and v.at >= :month_begins
        and v.at <= :until
        and v.size is not null
),

-- Most nights are of quiet copies, which count from their first one on: nothing is sorted.
quiet as (
    select
        count(*) as nights,
        count(*) filter (where v.outcome = 'alarm') as alarms
    from raw.shadow_verdict as v
    inner join raw.series as s on v.series_key = s.series_key
    where
        v.suite = :suite
        and s.cluster = :cluster
        and v.month >= :month
        and v.at >= :month_begins
        and v.at > :since
        and v.at <= :until
        and v.size is null
)

select
    shadow,
    count(*) as nights,
    count(*) filter (where outcome = 'caught') as caught,
    count(*) filter (where outcome = 'missed') as missed,
    count(*) filter (where outcome = 'spoiled') as spoiled,
    0 as alarms,
    percentile_cont(0.5) within group (order by night)
    filter (where outcome = 'caught') as median_delay
from planted
where
    at > :since
    and planted_at > :since
    and planted_at <= (select last_planted.at from last_planted)
group by shadow
union all
select
    'quiet' as shadow,
    nights,
    0 as caught,
    0 as missed,
    0 as spoiled,
    alarms,
    null as median_delay
from quiet
where nights > 0;

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
