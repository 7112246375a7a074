-- What came back of each planned case of a run; the figures are null where nothing did.
select
    p.case_id,
    m.generation,
    m.status,
    m.reasons,
    m.is_quarantined,
    m.quarantine_reasons,
    r.started_at,
    m.throughput,
    m.run_id,
    m.n,
    m.spread,
    m.fingerprint_id,
    m.definition_digest,
    m.framework_version
from staging.planned_case as p
inner join staging.run as r on p.run_id = r.run_id
left join staging.measurement as m
    on p.run_id = m.run_id and p.case_id = m.case_id
where p.run_id = %(run_id)s
order by p.case_id;
