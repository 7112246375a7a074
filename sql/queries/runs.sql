-- Runs with how their cases stand, newest first. A null parameter does not constrain.
with counted as (
    select
        p.run_id,
        count(*) as planned,
        count(m.run_id) filter (where m.status = 'ok' and not m.is_quarantined) as measured,
        count(m.run_id) filter (where m.status not in ('ok', 'left_out')) as failed,
        count(*) filter (where p.left_out is not null or m.status = 'left_out') as left_out,
        -- A failed case is refused as well, and counted once.
        count(m.run_id) filter (where m.is_quarantined and m.status = 'ok') as quarantined
    from staging.planned_case as p
    left join staging.measurement as m
        on p.run_id = m.run_id and p.case_id = m.case_id
    group by p.run_id
)

select
    r.run_id,
    r.suite,
    r.cluster,
    r.run_kind,
    r.started_at,
    r.requested_by,
    r.dag_id,
    r.dag_run_id,
    r.code_digest,
    r.loaded_at,
    r.is_imported,
    coalesce(c.planned, 0) as planned,
    coalesce(c.measured, 0) as measured,
    coalesce(c.failed, 0) as failed,
    coalesce(c.left_out, 0) as left_out,
    coalesce(c.quarantined, 0) as quarantined
from staging.run as r
left join counted as c on r.run_id = c.run_id
where
    (%(run_id)s::text is null or r.run_id = %(run_id)s)
    and (%(suite)s::text is null or r.suite = %(suite)s)
    and (%(cluster)s::text is null or r.cluster = %(cluster)s)
    and (%(imported)s or not r.is_imported)
order by r.started_at desc, r.run_id desc
limit %(max_rows)s;
