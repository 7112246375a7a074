-- Median seconds that each case took on a cluster, over its last 20 finished runs.
with latest as (
    select
        m.case_id,
        m.elapsed_s,
        row_number() over (partition by m.case_id order by r.started_at desc) as age
    from staging.measurement as m
    inner join staging.run as r on m.run_id = r.run_id
    where
        r.cluster = %(cluster)s
        and m.status = 'ok'
        and m.elapsed_s is not null
        and (%(case_ids)s::text[] is null or m.case_id = any(%(case_ids)s))
)

select
    case_id,
    percentile_cont(0.5) within group (order by elapsed_s) as seconds
from latest
where age <= 20
group by case_id
order by case_id;
