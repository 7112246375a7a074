-- Nights of some series, oldest first: value, versions, digests.
select
    m.case_id,
    m.run_id,
    m.started_at,
    m.throughput,
    m.framework_version,
    m.definition_digest,
    r.code_digest,
    coalesce(b.digest, m.build_id) as build
from marts.fct_measurement as m
inner join staging.run as r on m.run_id = r.run_id
left join raw.build as b on m.build_id = b.build_id
where
    m.case_id = any(%(case_ids)s)
    and m.cluster = %(cluster)s
    and m.run_kind = 'nightly'
    and m.started_at <= %(until)s
    and m.started_at > %(until)s - interval '90 days'
order by m.started_at asc, m.run_id asc, m.case_id asc;
