-- One series, oldest first: medians that passed the checks, of the run kinds asked for.
select
    started_at,
    throughput,
    run_id,
    n,
    spread,
    fingerprint_id,
    definition_digest,
    framework_version
from marts.fct_measurement
where
    case_id = %(case_id)s
    and cluster = %(cluster)s
    and run_kind = any(%(kinds)s)
    and (%(before)s::timestamptz is null or started_at < %(before)s)
order by started_at asc, run_id asc;
