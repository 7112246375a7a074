-- What became of the shadows of a suite on a cluster, after `since` and up to `until`.
select
    case when size is null then 'quiet' else shadow end as shadow,
    count(*) as nights,
    count(*) filter (where outcome = 'caught') as caught,
    count(*) filter (where outcome = 'missed') as missed,
    count(*) filter (where outcome = 'spoiled') as spoiled,
    count(*) filter (where outcome = 'alarm') as alarms,
    percentile_cont(0.5) within group (order by night)
    filter (where outcome = 'caught') as median_delay
from raw.shadow_verdict
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and at > %(since)s
    and at <= %(until)s
group by 1;
