-- Every planned case of a run with what came of it: measured, quarantined, failed, left
-- out or missing.
-- A quarantined figure is shown with its mark and its reasons; marts.fct_measurement has none.
select
    p.case_id,
    r.cluster,
    r.run_id,
    r.suite,
    r.run_kind,
    r.started_at,
    p.workload,
    p.framework,
    m.framework_version,
    p.strategy,
    p.nodes,
    p.devices_per_node,
    p.trainers,
    p.pservers,
    p.batch_size_per_device,
    p.precision,
    p.sync,
    p.compiler,
    p.data,
    p.scale,
    coalesce(m.build_id, p.build_id) as build_id,
    coalesce(
        m.status, case when p.left_out is null then 'missing' else 'left_out' end
    ) as status,
    coalesce(m.reasons, jsonb_path_query_array(p.left_out, '$'), '[]') as reasons,
    m.throughput,
    coalesce(m.unit, p.unit) as unit,
    coalesce(m.n, 0) as n,
    m.throughput_min as minimum,
    m.throughput_max as maximum,
    m.throughput_mad as mad,
    m.spread,
    m.half_width,
    m.speedup,
    m.efficiency,
    m.baseline_case_id,
    m.time_to_first_step_s,
    m.peak_resident_bytes,
    v.kind as verdict,
    v.sentence as verdict_sentence,
    v.baseline,
    v.change,
    v.smallest_slowdown,
    noise.sentence as noisy,
    coalesce(m.is_quarantined, false) as quarantined,
    coalesce(m.quarantine_reasons, '[]') as quarantine_reasons
from staging.planned_case as p
inner join staging.run as r on p.run_id = r.run_id
left join staging.measurement as m
    on p.run_id = m.run_id and p.case_id = m.case_id
left join raw.verdict as v
    on p.run_id = v.run_id and p.case_id = v.case_id
left join lateral (
    select
        e.what,
        e.sentence
    from marts.fct_noise_event as e
    where e.case_id = p.case_id and e.cluster = r.cluster and e.at <= r.started_at
    order by e.at desc
    limit 1
) as noise on noise.what = 'noisy'
where p.run_id = %(run_id)s
order by p.workload, p.framework, p.strategy, p.sync, p.nodes, p.trainers, p.case_id;
