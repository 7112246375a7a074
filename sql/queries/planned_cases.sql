-- The cases that a run means to measure, with their builds.
select
    p.case_id,
    p.axes,
    p.unit,
    p.definition_digest,
    p.left_out,
    b.line,
    b.variant,
    b.source,
    b.version,
    b.location,
    b.digest
from raw.planned_case as p
inner join raw.build as b on p.build_id = b.build_id
where p.run_id = %(run_id)s
order by p.case_id;
