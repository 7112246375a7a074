-- Results of runs: measurements, repeats, ranks, checks, fingerprints.

-- name: store_measurement*!
-- The median of a case in a run, or why there is none.
-- Writes only where something differs.
insert into raw.measurement as t (
    run_id,
    case_id,
    generation,
    status,
    reasons,
    build_id,
    framework_version,
    unit,
    n,
    throughput,
    minimum,
    maximum,
    mad,
    spread,
    half_width,
    speedup,
    efficiency,
    baseline_case_id,
    found_batch_size,
    time_to_first_step_s,
    peak_resident_bytes,
    sent_bytes_per_step,
    definition_digest,
    fingerprint_id,
    elapsed_s
)
values (
    :run_id,
    :case_id,
    :generation,
    :status,
    :reasons,
    :build_id,
    :framework_version,
    :unit,
    :n,
    :throughput,
    :minimum,
    :maximum,
    :mad,
    :spread,
    :half_width,
    :speedup,
    :efficiency,
    :baseline_case_id,
    :found_batch_size,
    :time_to_first_step_s,
    :peak_resident_bytes,
    :sent_bytes_per_step,
    :definition_digest,
    :fingerprint_id,
    :elapsed_s
)
on conflict (run_id, case_id, generation) do update set
    status = excluded.status,
    reasons = excluded.reasons,
    build_id = excluded.build_id,
    framework_version = excluded.framework_version,
    unit = excluded.unit,
    n = excluded.n,
    throughput = excluded.throughput,
    minimum = excluded.minimum,
    maximum = excluded.maximum,
    mad = excluded.mad,
    spread = excluded.spread,
    half_width = excluded.half_width,
    speedup = excluded.speedup,
    efficiency = excluded.efficiency,
    baseline_case_id = excluded.baseline_case_id,
    found_batch_size = excluded.found_batch_size,
    time_to_first_step_s = excluded.time_to_first_step_s,
    peak_resident_bytes = excluded.peak_resident_bytes,
    sent_bytes_per_step = excluded.sent_bytes_per_step,
    definition_digest = excluded.definition_digest,
    fingerprint_id = excluded.fingerprint_id,
    elapsed_s = excluded.elapsed_s
where t.* is distinct from excluded.*;

-- name: store_repeat*!
-- One launch of a gang with its numbers.
-- Writes only where something differs.
insert into raw.repeat as t (
    run_id,
    case_id,
    generation,
    repeat,
    status,
    reasons,
    error,
    started_at,
    throughput,
    step_throughput,
    window_s,
    samples,
    overlap,
    drift,
    time_to_first_step_s,
    peak_resident_bytes,
    sent_bytes_per_step,
    loss_first,
    loss_median,
    slowest_rank,
    step_seconds
)
values (
    :run_id,
    :case_id,
    :generation,
    :repeat,
    :status,
    :reasons,
    :error,
    :started_at,
    :throughput,
    :step_throughput,
    :window_s,
    :samples,
    :overlap,
    :drift,
    :time_to_first_step_s,
    :peak_resident_bytes,
    :sent_bytes_per_step,
    :loss_first,
    :loss_median,
    :slowest_rank,
    :step_seconds::double precision[]
)
on conflict (run_id, case_id, generation, repeat) do update set
    status = excluded.status,
    reasons = excluded.reasons,
    error = excluded.error,
    started_at = excluded.started_at,
    throughput = excluded.throughput,
    step_throughput = excluded.step_throughput,
    window_s = excluded.window_s,
    samples = excluded.samples,
    overlap = excluded.overlap,
    drift = excluded.drift,
    time_to_first_step_s = excluded.time_to_first_step_s,
    peak_resident_bytes = excluded.peak_resident_bytes,
    sent_bytes_per_step = excluded.sent_bytes_per_step,
    loss_first = excluded.loss_first,
    loss_median = excluded.loss_median,
    slowest_rank = excluded.slowest_rank,
    step_seconds = excluded.step_seconds
where t.* is distinct from excluded.*;

-- name: store_repeat_node*!
-- One node of a repeat.
-- Writes only where something differs.
insert into raw.repeat_node as t (
    run_id,
    case_id,
    generation,
    repeat,
    node,
    fingerprint_id,
    clock_offset_s,
    clock_error_s
)
values (
    :run_id,
    :case_id,
    :generation,
    :repeat,
    :node,
    :fingerprint_id,
    :clock_offset_s,
    :clock_error_s
)
on conflict (run_id, case_id, generation, repeat, node) do update set
    fingerprint_id = excluded.fingerprint_id,
    clock_offset_s = excluded.clock_offset_s,
    clock_error_s = excluded.clock_error_s
where t.* is distinct from excluded.*;

-- name: store_repeat_rank*!
-- One process of a repeat.
-- Writes only where something differs.
insert into raw.repeat_rank as t (
    run_id,
    case_id,
    generation,
    repeat,
    process,
    role,
    rank,
    node,
    samples_per_step,
    window_open_s,
    window_close_s,
    window_wall_s,
    step_seconds,
    step_end_s,
    time_to_first_step_s,
    loss_first,
    loss_window,
    weights_digest,
    parameters,
    peak_resident_bytes,
    sent_bytes_per_step,
    peak_allocator_bytes,
    precision,
    transport,
    versions
)
values (
    :run_id,
    :case_id,
    :generation,
    :repeat,
    :process,
    :role,
    :rank,
    :node,
    :samples_per_step,
    :window_open_s,
    :window_close_s,
    :window_wall_s,
    :step_seconds::double precision[],
    :step_end_s::double precision[],
    :time_to_first_step_s,
    :loss_first,
    :loss_window::double precision[],
    :weights_digest,
    :parameters,
    :peak_resident_bytes,
    :sent_bytes_per_step,
    :peak_allocator_bytes,
    :precision,
    :transport,
    :versions
)
on conflict (run_id, case_id, generation, repeat, process) do update set
    role = excluded.role,
    rank = excluded.rank,
    node = excluded.node,
    samples_per_step = excluded.samples_per_step,
    window_open_s = excluded.window_open_s,
    window_close_s = excluded.window_close_s,
    window_wall_s = excluded.window_wall_s,
    step_seconds = excluded.step_seconds,
    step_end_s = excluded.step_end_s,
    time_to_first_step_s = excluded.time_to_first_step_s,
    loss_first = excluded.loss_first,
    loss_window = excluded.loss_window,
    weights_digest = excluded.weights_digest,
    parameters = excluded.parameters,
    peak_resident_bytes = excluded.peak_resident_bytes,
    sent_bytes_per_step = excluded.sent_bytes_per_step,
    peak_allocator_bytes = excluded.peak_allocator_bytes,
    precision = excluded.precision,
    transport = excluded.transport,
    versions = excluded.versions
where t.* is distinct from excluded.*;

-- name: store_check_result*!
-- Result of one check on one result.
-- Writes only where something differs.
insert into raw.check_result as t (
    run_id,
    case_id,
    generation,
    subject,
    repeat,
    check_name,
    ordinal,
    severity,
    success,
    observed,
    expected
)
values (
    :run_id,
    :case_id,
    :generation,
    :subject,
    :repeat,
    :check_name,
    :ordinal,
    :severity,
    :success,
    :observed,
    :expected
)
on conflict (run_id, case_id, generation, subject, repeat, check_name, ordinal) do update set
    severity = excluded.severity,
    success = excluded.success,
    observed = excluded.observed,
    expected = excluded.expected
where t.* is distinct from excluded.*;

-- name: store_quarantine*!
-- A result that does not count, with its reasons.
-- Writes only where something differs.
insert into raw.quarantine as t (
    run_id,
    case_id,
    generation,
    subject,
    repeat,
    reasons
)
values (
    :run_id,
    :case_id,
    :generation,
    :subject,
    :repeat,
    :reasons
)
on conflict (run_id, case_id, generation, subject, repeat) do update set
    reasons = excluded.reasons
where t.* is distinct from excluded.*;

-- name: store_fingerprint*!
-- Hardware and software of a node.
-- Writes only where something differs.
insert into raw.fingerprint as t (
    fingerprint_id,
    document
)
values (
    :fingerprint_id,
    :document
)
on conflict (fingerprint_id) do update set
    document = excluded.document
where t.* is distinct from excluded.*;

-- name: measured(run_id)
-- Result of each planned case of a run; the figures are null where there is none.
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
where p.run_id = :run_id
order by p.case_id;

-- name: results_rows(run_id)
-- Every planned case of a run with its result: measured, quarantined, failed, left out or missing.
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
    coalesce(p.batch_size_per_device, m.found_batch_size) as batch_size_per_device,
    p.precision,
    p.sync,
    p.compiler,
    p.data,
    p.scale,
    coalesce(m.build_id, p.build_id) as build_id,
    p.is_private_build as private_build,
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
    m.sent_bytes_per_step,
    v.kind as verdict,
    v.sentence as verdict_sentence,
    v.baseline,
    v.change,
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
    coalesce(m.is_quarantined, false) as quarantined,
    coalesce(m.quarantine_reasons, '[]') as quarantine_reasons,
    failure.error
from staging.planned_case as p
inner join staging.run as r on p.run_id = r.run_id
left join staging.measurement as m
    on p.run_id = m.run_id and p.case_id = m.case_id
left join raw.verdict as v
    on p.run_id = v.run_id and p.case_id = v.case_id
left join lateral (
    select e.error
    from staging.repeat as e
    where e.run_id = p.run_id and e.case_id = p.case_id and e.error is not null
    order by e.generation desc, e.repeat desc
    limit 1
) as failure on true
left join lateral (
    select
        e.what,
        e.sentence
    from marts.fct_noise_event as e
    where e.case_id = p.case_id and e.cluster = r.cluster and e.at <= r.started_at
    order by e.at desc
    limit 1
) as noise on noise.what = 'noisy'
left join marts.series_state as s
    on p.case_id = s.case_id and r.cluster = s.cluster
left join lateral (
    select f.framework_version
    from marts.fct_measurement as f
    where
        f.case_id = p.case_id
        and f.cluster = r.cluster
        and f.run_kind = 'nightly'
        and not f.is_private_build
        and f.started_at < r.started_at
    order by f.started_at desc
    limit 1
) as night on true
where p.run_id = :run_id
order by p.workload, p.framework, p.strategy, p.sync, p.nodes, p.trainers, p.case_id;

-- name: case_error(run_id, case_id)
-- The error of the last repeat of a case that failed: the end of its traceback.
select e.error
from staging.repeat as e
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
