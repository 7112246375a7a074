-- What became of the shadows of a suite on a cluster, after `since` and up to `until`.
-- Of planted slowdowns only those count that have had all their nights: one that is caught is
-- decided at once, one that is missed only after so many nights.
with last_planted as (
    select distinct at
    from raw.shadow_verdict
    where
        suite = %(suite)s
        and cluster = %(cluster)s
        and at > %(since)s
        and at <= %(until)s
    order by at desc
    limit 1 offset %(watched)s - 1
),

-- A window instead of a join: right after a suite's first night there are no statistics yet.
-- Whole months, and one before: the first night of a shadow is among them or too early to count.
dated as (
    select
        case when size is null then 'quiet' else shadow end as shadow,
        night,
        at,
        outcome,
        min(at) over (partition by case_id, month, shadow) as planted_at
    from raw.shadow_verdict
    where
        suite = %(suite)s
        and cluster = %(cluster)s
        and month >= %(month)s
        and at >= %(month_begins)s
        and at <= %(until)s
)

select
    shadow,
    count(*) as nights,
    count(*) filter (where outcome = 'caught') as caught,
    count(*) filter (where outcome = 'missed') as missed,
    count(*) filter (where outcome = 'spoiled') as spoiled,
    count(*) filter (where outcome = 'alarm') as alarms,
    percentile_cont(0.5) within group (order by night)
    filter (where outcome = 'caught') as median_delay
from dated
where
    at > %(since)s
    and (
        shadow = 'quiet'
        or (planted_at > %(since)s and planted_at <= (select last_planted.at from last_planted))
    )
group by shadow;
