-- Launches of some series in some runs: how many, how many were disturbed and why, their drift.
select
    case_id,
    run_id,
    count(*) as repeats,
    count(*) filter (where status = 'disturbed') as disturbed,
    jsonb_path_query_array(
        jsonb_agg(reasons order by repeat) filter (where status = 'disturbed'), '$[*][*]'
    ) as reasons,
    percentile_cont(0.5) within group (order by drift) as drift
from raw.repeat
where
    case_id = any(%(case_ids)s)
    and run_id = any(%(run_ids)s)
group by case_id, run_id
order by case_id, run_id;
