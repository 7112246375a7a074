-- What became of the shadows of a suite on a cluster, after `since` and up to `until`.
-- Of planted slowdowns only those count that have had all their nights: one that is caught is
-- decided at once, one that is missed only after so many nights.
with newest as (
    select distinct at
    from raw.shadow_verdict
    where
        suite = %(suite)s
        and cluster = %(cluster)s
        and at <= %(until)s
    order by at desc
    limit %(watched)s
),

planted as (
    select
        case_id,
        month,
        shadow
    from raw.shadow_verdict
    where
        suite = %(suite)s
        and cluster = %(cluster)s
        and size is not null
    group by case_id, month, shadow
    having min(at) > %(since)s and min(at) <= (select min(at) from newest)
)

select
    case when v.size is null then 'quiet' else v.shadow end as shadow,
    count(*) as nights,
    count(*) filter (where v.outcome = 'caught') as caught,
    count(*) filter (where v.outcome = 'missed') as missed,
    count(*) filter (where v.outcome = 'spoiled') as spoiled,
    count(*) filter (where v.outcome = 'alarm') as alarms,
    percentile_cont(0.5) within group (order by v.night)
    filter (where v.outcome = 'caught') as median_delay
from raw.shadow_verdict as v
left join planted as p
    on v.case_id = p.case_id and v.month = p.month and v.shadow = p.shadow
where
    v.suite = %(suite)s
    and v.cluster = %(cluster)s
    and v.at > %(since)s
    and v.at <= %(until)s
    and (v.size is null or p.case_id is not null)
group by case when v.size is null then 'quiet' else v.shadow end;
