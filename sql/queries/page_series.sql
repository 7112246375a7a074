-- The newest results of each series, oldest first, with what became of each: for the results
-- page. Quarantined, failed and missing ones are among them. A null parameter does not constrain;
-- drills and what was measured to confirm never show.
with numbered as (
    select
        p.case_id,
        r.cluster,
        r.run_id,
        r.run_kind,
        r.started_at,
        p.workload,
        p.framework,
        p.strategy,
        p.nodes,
        p.devices_per_node,
        p.trainers,
        p.pservers,
        p.batch_size_per_device,
        p.precision,
        p.sync,
        p.scale,
        p.is_synthetic,
        m.framework_version,
        coalesce(m.status, 'missing') as status,
        coalesce(m.reasons, '[]') as reasons,
        m.throughput,
        coalesce(m.unit, p.unit) as unit,
        coalesce(m.n, 0) as n,
        m.spread,
        m.speedup,
        m.efficiency,
        coalesce(m.is_quarantined, false) as quarantined,
        coalesce(m.quarantine_reasons, '[]') as quarantine_reasons,
        v.kind as verdict,
        v.sentence as verdict_sentence,
        row_number() over (
            partition by p.case_id, r.cluster order by r.started_at desc, r.run_id desc
        ) as age
    from staging.planned_case as p
    inner join staging.run as r on p.run_id = r.run_id
    left join staging.measurement as m
        on p.run_id = m.run_id and p.case_id = m.case_id
    left join raw.verdict as v
        on p.run_id = v.run_id and p.case_id = v.case_id
    where
        r.loaded_at is not null
        and r.run_kind not in ('drill', 'confirm')
        -- A night that had no room for a case says nothing of its series.
        and p.left_out is null
        and m.status is distinct from 'left_out'
        and (%(workload)s::text is null or p.workload = %(workload)s)
        and (%(framework)s::text is null or p.framework = %(framework)s)
        and (%(cluster)s::text is null or r.cluster = %(cluster)s)
        and (%(case_id)s::text is null or p.case_id = %(case_id)s)
)

select *
from numbered
where age <= %(max_points)s
order by workload, framework, cluster, case_id, started_at, run_id;
