-- Where some series ran in some runs, and which fingerprint each node had.
select
    case_id,
    run_id,
    node,
    max(fingerprint_id) as fingerprint_id
from raw.repeat_node
where
    case_id = any(%(case_ids)s)
    and run_id = any(%(run_ids)s)
group by case_id, run_id, node
order by case_id, run_id, node;
