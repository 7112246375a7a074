-- Results of runs: measurements, repeats, ranks, checks, fingerprints.

-- name: measured(run_id)
-- Result of each planned case of a run; the values are null if there is none.
select
    case_id,
    generation,
    status,
    reasons,
    is_quarantined,
    quarantine_reasons,
    started_at,
    throughput,
    tokens_per_s_per_device,
    tflops_per_device,
    mfu,
    mfu_absent,
    joules_per_unit,
    energy_absent,
    peak_resident_bytes,
    peak_allocator_bytes,
    run_id,
    n,
    spread,
    fingerprint_id,
    definition_digest,
    framework_version
from staging.result
where run_id = :run_id
order by case_id;

-- name: results_rows(run_id, case_id)
-- Every planned case of a run with its result: measured, quarantined, failed, left out or missing.
-- A case that is not null is the only one. A quarantined value is shown with its mark and its
-- reasons; marts.fct_measurement has none.
select
    p.case_id,
    p.cluster,
    p.run_id,
    p.suite,
    p.run_kind,
    p.started_at,
    p.workload,
    p.framework,
    p.framework_version,
    loaded.python,
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
    p.build_id,
    p.is_private_build as private_build,
    p.untried,
    coalesce(
        p.status, case when p.left_out is null then 'missing' else 'left_out' end
    ) as status,
    coalesce(p.reasons, jsonb_path_query_array(p.left_out, '$'), '[]') as reasons,
    p.throughput,
    p.unit,
    coalesce(p.n, 0) as n,
    p.throughput_min as minimum,
    p.throughput_max as maximum,
    p.throughput_mad as mad,
    p.spread,
    p.half_width,
    p.speedup,
    p.efficiency,
    p.baseline_case_id,
    p.time_to_first_step_s,
    p.peak_resident_bytes,
    p.peak_allocator_bytes,
    p.sent_bytes_per_step,
    p.data_wait_s,
    p.tokens_per_s,
    p.model_flops_per_s,
    p.tokens_per_s_per_device,
    p.tflops_per_device,
    p.device,
    p.peak_flops,
    p.mfu,
    p.mfu_absent,
    p.reported,
    p.power_w,
    p.joules_per_unit,
    p.energy_absent,
    v.kind as verdict,
    v.sentence as verdict_sentence,
    v.training,
    v.training_sentence,
    v.metric,
    v.baseline,
    v.change,
    v.level_change,
    v.low as change_low,
    v.high as change_high,
    v.smallest_slowdown,
    noise.sentence as noisy,
    s.alert_id,
    s.alert_verdict,
    s.alert_change,
    s.drift,
    s.drift_since,
    night.framework_version as nightly_version,
    p.is_quarantined as quarantined,
    coalesce(p.quarantine_reasons, '[]') as quarantine_reasons,
    failure.error
from staging.result as p
left join raw.verdict as v
    on p.run_key = v.run_key and p.series_key = v.series_key and p.run_at = v.run_at
left join lateral (
    select e.error
    from raw.repeat as e
    where
        e.run_key = p.run_key
        and e.series_key = p.series_key
        and e.run_at = p.run_at
        and e.error is not null
    order by e.generation desc, e.repeat desc
    limit 1
) as failure on true
left join lateral (
    select string_agg(distinct e.versions ->> 'python', ' and ') as python
    from raw.repeat_rank as e
    where
        e.run_key = p.run_key
        and e.series_key = p.series_key
        and e.run_at = p.run_at
        and e.generation = p.generation
) as loaded on true
left join lateral (
    select
        e.what,
        e.sentence
    from raw.noise_event as e
    where e.case_id = p.case_id and e.cluster = p.cluster and e.at <= p.started_at
    order by e.at desc
    limit 1
) as noise on noise.what = 'noisy'
left join marts.series_state as s
    on p.case_id = s.case_id and p.cluster = s.cluster
left join lateral (
    select f.framework_version
    from raw.measurement as f
    where
        f.series_key = p.series_key
        and f.run_at < p.run_at
        and f.run_kind = 'nightly'
        and f.is_good
        and not f.is_private_build
    order by f.run_at desc
    limit 1
) as night on true
where
    p.run_id = :run_id
    and (:case_id::text is null or p.case_id = :case_id)
order by p.workload, p.framework, p.strategy, p.sync, p.nodes, p.trainers, p.case_id;

-- name: case_error(run_id, case_id)
-- The error of the last repeat of a case that failed: the end of its traceback.
select e.error
from marts.fct_repeat as e
where e.run_id = :run_id and e.case_id = :case_id and e.error is not null
order by e.generation desc, e.repeat desc
limit 1;

-- name: fingerprints(fingerprint_ids)
-- Hardware and software of nodes, by fingerprint.
select
    fingerprint_id,
    document
from raw.fingerprint
where fingerprint_id = any(:fingerprint_ids);
