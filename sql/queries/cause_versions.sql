-- The versions that the ranks of some series told in some runs.
select distinct
    case_id,
    run_id,
    versions
from raw.repeat_rank
where
    case_id = any(%(case_ids)s)
    and run_id = any(%(run_ids)s);
