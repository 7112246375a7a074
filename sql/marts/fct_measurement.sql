-- Grain: one row per series (case on a cluster) and run: the median over its good repeats.
-- Only measurements that ended ok and passed every check that must not fail.
create or replace view marts.fct_measurement as
with good as (
    select *
    from staging.measurement
    where
        status = 'ok'
        and throughput is not null
        and not is_quarantined
)

select
    p.case_id,
    r.cluster,
    r.run_id,
    r.suite,
    r.run_kind,
    r.started_at,
    r.is_imported,
    p.workload,
    p.framework,
    p.strategy,
    p.nodes,
    p.devices_per_node,
    p.trainers,
    p.pservers,
    coalesce(p.batch_size_per_device, g.found_batch_size) as batch_size_per_device,
    coalesce(p.global_batch_size, g.found_batch_size * p.trainers) as global_batch_size,
    p.batch_size_per_device is null as is_batch_found,
    p.precision,
    p.sync,
    p.compiler,
    p.execution,
    p.layout,
    p.sequence_length,
    p.compression,
    p.link_bandwidth,
    p.threads,
    p.sparsity,
    p.cpus,
    p.memory_mb,
    b.environment,
    p.data,
    p.is_synthetic,
    p.scale,
    p.axes,
    g.build_id,
    p.is_private_build,
    g.framework_version,
    g.throughput,
    g.unit,
    g.n,
    g.throughput_min,
    g.throughput_max,
    g.throughput_mad,
    g.spread,
    g.half_width,
    g.throughput
    / coalesce(p.global_batch_size, g.found_batch_size * p.trainers) as minibatches_per_s,
    g.speedup,
    g.efficiency,
    g.baseline_case_id,
    g.time_to_first_step_s,
    g.peak_resident_bytes,
    g.sent_bytes_per_step,
    g.definition_digest,
    g.fingerprint_id,
    g.node_names,
    g.elapsed_s
from good as g
inner join staging.planned_case as p
    on g.run_id = p.run_id and g.case_id = p.case_id
inner join staging.run as r on g.run_id = r.run_id
inner join staging.build as b on g.build_id = b.build_id;

comment on view marts.fct_measurement is
'One row per series (case_id, cluster) and run: medians that passed the checks';
comment on column marts.fct_measurement.throughput is
'Median over n repeats, units of work per second; the unit stands in unit';
comment on column marts.fct_measurement.is_batch_found is
'The case says max: batch_size_per_device is the largest that fitted in this run';
comment on column marts.fct_measurement.minibatches_per_s is 'throughput / global_batch_size';
comment on column marts.fct_measurement.spread is '(throughput_max - throughput_min) / throughput';
comment on column marts.fct_measurement.speedup is
'throughput / throughput of baseline_case_id in the same run, same batch per device (weak scaling)';
comment on column marts.fct_measurement.efficiency is 'speedup / (ranks / ranks of the baseline)';
comment on column marts.fct_measurement.time_to_first_step_s is
'Process start to the end of the first step, seconds';
comment on column marts.fct_measurement.peak_resident_bytes is 'Largest rank''s, bytes';
comment on column marts.fct_measurement.sent_bytes_per_step is
'Bytes of gradients that a rank sends in a step, the largest rank''s; null where the framework '
'exchanges them and does not count';
comment on column marts.fct_measurement.is_synthetic is
'Made from synthetic data: never stand it unmarked beside a published real-data figure';
comment on column marts.fct_measurement.axes is
'Every axis of the case by name; two rows do equal work where these agree but for one';
comment on column marts.fct_measurement.environment is
'venv, made from a lock or a wheel, or prefix, prepared by the site';
comment on column marts.fct_measurement.is_private_build is
'Its build was named for this run and is not the suite''s own: no part of the series'' history';
comment on column marts.fct_measurement.node_names is 'Nodes that it ran on; null when imported';
