-- Grain: one row per series (case on a cluster) and run: the median over its good repeats.
-- Only measurements that ended ok and passed every check that must not fail.
create or replace view marts.fct_measurement as
select
    s.case_id,
    s.cluster,
    r.run_id,
    r.suite,
    m.run_kind,
    m.run_at as started_at,
    r.origin = 'import' as is_imported,
    s.workload,
    s.framework,
    s.strategy,
    s.nodes,
    s.devices_per_node,
    s.trainers,
    s.pservers,
    coalesce(s.batch_size_per_device, m.found_batch_size) as batch_size_per_device,
    coalesce(s.global_batch_size, m.found_batch_size * s.trainers) as global_batch_size,
    s.batch_size_per_device is null as is_batch_found,
    /* axes of s */
    b.environment,
    s.data,
    s.is_synthetic,
    s.scale,
    s.axes,
    b.build_id,
    m.is_private_build,
    case
        when
            m.untried is not null
            and not exists (
                select 1
                from staging.tried_mode as t
                left join staging.run_driver as d on d.run_id = r.run_id
                where
                    t.cluster = s.cluster
                    and t.line = s.framework
                    and t.mode = s.mode
                    and t.build_id = b.build_id
                    and t.framework_version = coalesce(m.framework_version, '')
                    and t.driver = coalesce(d.driver, '')
            )
            then m.untried
    end as untried,
    m.framework_version,
    m.throughput,
    m.unit,
    m.n,
    m.minimum as throughput_min,
    m.maximum as throughput_max,
    m.mad as throughput_mad,
    m.spread,
    m.half_width,
    m.throughput
    / coalesce(s.global_batch_size, m.found_batch_size * s.trainers) as minibatches_per_s,
    m.speedup,
    m.efficiency,
    m.baseline_case_id,
    m.time_to_first_step_s,
    m.peak_resident_bytes,
    m.peak_allocator_bytes,
    m.sent_bytes_per_step,
    m.data_wait_s,
    m.power_w,
    m.joules_per_unit,
    m.energy_absent,
    m.tokens_per_s,
    m.model_flops_per_s,
    m.tokens_per_s / s.trainers as tokens_per_s_per_device,
    m.model_flops_per_s / s.trainers / 1e12 as tflops_per_device,
    m.device,
    m.peak_flops,
    m.mfu,
    m.mfu_absent,
    m.reported,
    m.losses,
    nullif(m.definition_digest, '') as definition_digest,
    nullif(m.fingerprint_id, '') as fingerprint_id,
    m.node_names,
    m.elapsed_s,
    m.series_key,
    m.run_key
from raw.measurement as m
-- run_at is the start of the run, and prunes months where runs are known. As an equality it would
-- count in addition to run_key, and the planner would expect one row instead of thousands.
inner join raw.run as r
    on m.run_key = r.run_key and m.run_at >= r.started_at and m.run_at <= r.started_at
inner join staging.series as s on m.series_key = s.series_key
inner join staging.build as b on m.build_key = b.build_key
where m.is_good;

comment on view marts.fct_measurement is
'One row per series (case_id, cluster) and run: medians that passed the checks';
comment on column marts.fct_measurement.throughput is
'Median over n repeats, units of work per second; the unit stands in unit';
comment on column marts.fct_measurement.is_batch_found is
'Whether the case has max: batch_size_per_device is then the largest batch that fitted in this run';
comment on column marts.fct_measurement.minibatches_per_s is 'throughput / global_batch_size';
comment on column marts.fct_measurement.spread is '(throughput_max - throughput_min) / throughput';
comment on column marts.fct_measurement.speedup is
'throughput / throughput of baseline_case_id in the same run, same batch per device (weak scaling)';
comment on column marts.fct_measurement.efficiency is 'speedup / (ranks / ranks of the baseline)';
comment on column marts.fct_measurement.time_to_first_step_s is
'Process start to the end of the first step, seconds';
comment on column marts.fct_measurement.peak_resident_bytes is
'Largest resident memory of a rank, bytes';
comment on column marts.fct_measurement.sent_bytes_per_step is
'Bytes that a rank sends in a step, the largest rank''s; null where the line does not '
'count them';
comment on column marts.fct_measurement.data_wait_s is
'Seconds that a step waited for its batch, median of the repeats; null for synthetic data. '
'Times minibatches_per_s it is the share of a step';
comment on column marts.fct_measurement.joules_per_unit is
'Energy of the devices for a unit of work, J: power / throughput, median of the repeats; null with '
'its reason in energy_absent';
comment on column marts.fct_measurement.energy_absent is
'Why there is no energy; null where there is one';
comment on column marts.fct_measurement.tokens_per_s is
'Tokens per second of all devices; null for what is no language model';
comment on column marts.fct_measurement.model_flops_per_s is
'Model FLOP/s of all devices, forward and backward, without recomputation; null if the '
'workload states no FLOPs';
comment on column marts.fct_measurement.tokens_per_s_per_device is 'tokens_per_s / trainers';
comment on column marts.fct_measurement.tflops_per_device is
'model_flops_per_s / trainers, in TFLOP/s';
comment on column marts.fct_measurement.mfu is
'Model FLOPs utilisation: model_flops_per_s / peak_flops; null with its reason in mfu_absent';
comment on column marts.fct_measurement.mfu_absent is
'Why there is no mfu; null where there is one';
comment on column marts.fct_measurement.reported is
'Values that a training script printed itself, such as tflops_per_device and mfu_percent by its '
'own formula: by name, as printed, median of the repeats; null if none. Never judged';
comment on column marts.fct_measurement.losses is
'Losses that show how it trained, by name, each with the lowest and the highest of the repeats';
comment on column marts.fct_measurement.is_synthetic is
'Whether the input data were synthetic; mark such a value if you show it next to a published '
'value for real data';
comment on column marts.fct_measurement.axes is
'Every axis of the case by name; two rows do equal work if only one axis differs';
comment on column marts.fct_measurement.is_private_build is
'Whether the build was named for this run and replaced the suite''s build; such a result is '
'not part of the history';
comment on column marts.fct_measurement.untried is
'Why this configuration was untried on such devices. Do not quote it as what the line can do '
'before it has passed the acceptance test of the cluster with this build and driver';
comment on column marts.fct_measurement.node_names is 'Nodes that it ran on; null when imported';
comment on column marts.fct_measurement.series_key is 'Number of the series: short and stable';
comment on column marts.fct_measurement.run_key is 'Number of the run';
comment on column marts.fct_measurement.is_imported is
'Whether the result was imported from older results';
comment on column marts.fct_measurement.batch_size_per_device is
'Samples in a step of one trainer; if the case has max, the batch size that was found';
comment on column marts.fct_measurement.global_batch_size is 'Samples in a step of all trainers';
comment on column marts.fct_measurement.definition_digest is
'Digest of workload and protocol; a change starts a new segment of the history; null where unknown';
comment on column marts.fct_measurement.fingerprint_id is
'Fingerprint of the node, or a digest of those of all nodes; null where unknown';
