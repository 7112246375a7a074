-- Scheduled runs of a suite with what they lack: to be measured, and nothing came back.
select
    r.run_id,
    r.started_at,
    r.loaded_at,
    count(p.case_id) filter (where p.left_out is null) as planned,
    coalesce(
        array_agg(p.case_id order by p.case_id)
        filter (where p.left_out is null and m.run_id is null and p.case_id is not null),
        '{}'
    ) as without,
    -- A night that had no room for any case has nothing to judge.
    coalesce(
        bool_or(v.run_id is not null)
        or not bool_or(p.left_out is null and coalesce(m.status, '') <> 'left_out'),
        true
    ) as is_judged
from staging.run as r
left join staging.planned_case as p on r.run_id = p.run_id
left join staging.measurement as m on p.run_id = m.run_id and p.case_id = m.case_id
left join raw.verdict as v on p.run_id = v.run_id and p.case_id = v.case_id
where
    r.suite = %(suite)s
    and r.cluster = %(cluster)s
    and r.run_kind = 'nightly'
    and not r.is_imported
    and r.started_at >= %(since)s
group by r.run_id, r.started_at, r.loaded_at
order by r.started_at;
