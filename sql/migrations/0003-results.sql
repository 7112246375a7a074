-- Plans and results. `> 0 and < 'infinity'` also refuses NaN, which PostgreSQL
-- sorts above infinity. Times are seconds, sizes are bytes, throughput is in units of work per
-- second. Results are partitioned by the month in which their run started (`run_at`).
create table raw.planned_case (
    run_key integer not null references raw.run (run_key),
    series_key integer not null references raw.series (series_key),
    run_at timestamptz not null,
    build_key integer not null references raw.build (build_key),
    is_private_build boolean not null default false,
    unit text,
    definition_digest text not null default '',
    left_out jsonb check (jsonb_typeof(left_out) = 'object'),
    untried text check (untried <> ''),
    primary key (run_key, series_key)
);
create index planned_case_by_series on raw.planned_case (series_key, run_at desc);
comment on table raw.planned_case is
'One row for each case that a run plans to measure; cases without a result can then be '
'reported as missing';
comment on column raw.planned_case.run_key is 'The run';
comment on column raw.planned_case.series_key is 'Series of the case on the run''s cluster';
comment on column raw.planned_case.run_at is 'Start of the run';
comment on column raw.planned_case.build_key is 'Build that is to be measured';
comment on column raw.planned_case.is_private_build is
'Whether the build was named for this run and replaced the suite''s build; such results are '
'in no baseline and no latest median';
comment on column raw.planned_case.unit is 'Unit of work counted: images, samples, tokens';
comment on column raw.planned_case.definition_digest is
'Digest of workload and protocol; a change starts a new segment of the history';
comment on column raw.planned_case.left_out is
'Why the case did not fit into the night; null if it was planned to be measured';
comment on column raw.planned_case.untried is
'Why this configuration of the line was untried on such devices; null if it was tried';

create table raw.measurement (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    generation integer not null check (generation >= 0),
    build_key integer not null references raw.build (build_key),
    n integer not null check (n >= 0),
    is_private_build boolean not null default false,
    is_superseded boolean not null default false,
    is_good boolean not null generated always as (
        status = 'ok' and throughput is not null and quarantine_reasons is null
        and not is_superseded
    ) stored,
    throughput double precision check (throughput > 0 and throughput < 'infinity'),
    minimum double precision check (minimum > 0),
    maximum double precision check (maximum < 'infinity'),
    mad double precision check (mad >= 0 and mad < 'infinity'),
    spread double precision check (spread >= 0 and spread < 'infinity'),
    half_width double precision check (half_width >= 0),
    speedup double precision check (speedup > 0 and speedup < 'infinity'),
    efficiency double precision check (efficiency > 0 and efficiency < 'infinity'),
    time_to_first_step_s double precision,
    elapsed_s double precision check (elapsed_s >= 0 and elapsed_s < 'infinity'),
    peak_resident_bytes bigint check (peak_resident_bytes > 0),
    sent_bytes_per_step bigint check (sent_bytes_per_step >= 0),
    data_wait_s double precision check (data_wait_s >= 0 and data_wait_s < 'infinity'),
    found_batch_size integer check (found_batch_size >= 1),
    checks_met integer not null default 0 check (checks_met >= 0),
    run_kind text not null,
    status text not null check (status in ('ok', 'failed', 'cancelled', 'unavailable', 'left_out')),
    unit text not null,
    framework_version text,
    definition_digest text not null default '',
    fingerprint_id text not null default '',
    baseline_case_id text,
    node_names text[],
    reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array'),
    quarantine_reasons jsonb check (jsonb_typeof(quarantine_reasons) = 'array'),
    untried text check (untried <> ''),
    tokens_per_s double precision check (tokens_per_s > 0 and tokens_per_s < 'infinity'),
    model_flops_per_s double precision
    check (model_flops_per_s > 0 and model_flops_per_s < 'infinity'),
    device text check (device <> ''),
    peak_flops double precision check (peak_flops > 0 and peak_flops < 'infinity'),
    mfu double precision check (mfu > 0 and mfu < 'infinity'),
    mfu_absent text check (mfu_absent <> ''),
    power_w double precision check (power_w > 0 and power_w < 'infinity'),
    joules_per_unit double precision
    check (joules_per_unit > 0 and joules_per_unit < 'infinity'),
    energy_absent text check (energy_absent <> ''),
    peak_allocator_bytes bigint check (peak_allocator_bytes > 0),
    losses jsonb check (jsonb_typeof(losses) = 'object'),
    reported jsonb check (jsonb_typeof(reported) = 'object'),
    primary key (run_key, series_key, generation, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key),
    constraint throughput_in_range check (throughput between minimum and maximum)
) partition by range (run_at);
create index measurement_by_series on raw.measurement (series_key, run_at desc);
comment on table raw.measurement is
'Median of the good repeats of a case, including quarantined results. For queries, use '
'marts.fct_measurement';
comment on column raw.measurement.run_at is 'Start of the run; the month is the partition';
comment on column raw.measurement.run_key is 'The run';
comment on column raw.measurement.series_key is 'Series of the case on the run''s cluster';
comment on column raw.measurement.generation is
'Number of times that a user requested to measure the case again';
comment on column raw.measurement.build_key is 'Build that was measured';
comment on column raw.measurement.n is 'Number of good repeats, whose median is the result';
comment on column raw.measurement.is_private_build is
'Whether the build was named for this run and replaced the suite''s build; such a result is '
'not part of the history';
comment on column raw.measurement.is_superseded is 'A later generation of the same run counts';
comment on column raw.measurement.is_good is
'Whether the result counts: ok, not quarantined, and of the last generation';
comment on column raw.measurement.throughput is
'Median over n repeats, units of work per second; unit names the unit';
comment on column raw.measurement.minimum is 'Smallest repeat, units of work per second';
comment on column raw.measurement.maximum is 'Largest repeat, units of work per second';
comment on column raw.measurement.mad is
'Median absolute deviation of the repeats, units of work per second';
comment on column raw.measurement.spread is '(maximum - minimum) / median';
comment on column raw.measurement.half_width is
'Relative 95 % confidence half-width, t distribution on log values; null for n < 3';
comment on column raw.measurement.speedup is
'throughput / throughput of baseline_case_id in the same run, same batch per device (weak scaling)';
comment on column raw.measurement.efficiency is 'speedup / (ranks / ranks of the baseline case)';
comment on column raw.measurement.time_to_first_step_s is
'Process start to the end of the first step, seconds; median of the repeats';
comment on column raw.measurement.elapsed_s is
'Seconds that the case took from preparing to its last repeat';
comment on column raw.measurement.peak_resident_bytes is 'Largest resident memory of any rank';
comment on column raw.measurement.sent_bytes_per_step is
'Bytes that a rank sends in a step, the highest of all ranks; null if the line does not count them';
comment on column raw.measurement.data_wait_s is
'Seconds that a step waited for its batch, median of the repeats; null for synthetic data. '
'Times minibatches_per_s it is the share of a step';
comment on column raw.measurement.found_batch_size is
'Batch size that was found if the case has max; otherwise null';
comment on column raw.measurement.checks_met is
'Number of checks that the repeats and the median passed; failed checks are in raw.failed_check';
comment on column raw.measurement.run_kind is 'Kind of the run';
comment on column raw.measurement.status is 'How the case ended';
comment on column raw.measurement.unit is 'Unit of work: images, samples, tokens';
comment on column raw.measurement.framework_version is 'Version that the framework reported';
comment on column raw.measurement.definition_digest is
'Digest of workload and protocol, as in raw.planned_case';
comment on column raw.measurement.fingerprint_id is
'Fingerprint of the node, or a digest of the fingerprints of all nodes; empty if unknown';
comment on column raw.measurement.baseline_case_id is
'Case that is the baseline of speedup and efficiency';
comment on column raw.measurement.node_names is 'Nodes that it ran on; null if unknown';
comment on column raw.measurement.reasons is
'Reasons why the case was not measured, each {code, node, subject, observed, expected}; empty '
'if it was measured';
comment on column raw.measurement.quarantine_reasons is
'The checks that refused it, each {code, node, subject, observed, expected}; null if none did';
comment on column raw.measurement.untried is
'Why the configuration was untried, as in raw.planned_case';
comment on column raw.measurement.tokens_per_s is
'Tokens per second of all devices; null for what is no language model';
comment on column raw.measurement.model_flops_per_s is
'Model FLOP/s of all devices, forward and backward, without recomputation; null if the '
'workload states no FLOPs';
comment on column raw.measurement.device is
'Model of the devices; null if unknown or if nodes differ';
comment on column raw.measurement.peak_flops is
'Dense peak of all devices together at the precision of the case, FLOP/s; null if unknown';
comment on column raw.measurement.mfu is
'Model FLOPs utilisation: model_flops_per_s / peak_flops; null with its reason in mfu_absent';
comment on column raw.measurement.mfu_absent is 'Why a median has no mfu; null if it has one';
comment on column raw.measurement.power_w is
'Mean power of all devices (GPUs, otherwise CPU packages) in the measurement windows, W; '
'median of the repeats. Other parts of the nodes are not included';
comment on column raw.measurement.joules_per_unit is
'Energy of the devices for a unit of work, J: power / throughput, median of the repeats; null with '
'its reason in energy_absent';
comment on column raw.measurement.energy_absent is
'Why a median has no energy; null if it has one';
comment on column raw.measurement.peak_allocator_bytes is
'Largest device memory that the allocator of any rank had reserved, bytes; null if no allocator '
'counts it';
comment on column raw.measurement.losses is
'Losses that show how the case trained, each with its lowest and highest value of the good '
'repeats. '
'Names: first; third (step); early (mean of the first six steps); mean (of the first mean_of '
'steps of the window); long (of its first 100). The loss again is that of the first batch after '
'the window of so many steps. The loss whole is the mean of all steps of the window, if it has '
'more than 100. '
'The value conditions is a checksum of CPUs, threads and variables. The value skipped counts '
'updates without a step after an overflow. '
'The value batch is the batch per device, if the run found it. Null if a rank recorded no loss';
comment on column raw.measurement.reported is
'Values that a training script printed itself, such as tflops_per_device and mfu_percent by its '
'own formula: by name, as printed, median of the repeats; null if none. Never judged';

create table raw.measurement_node (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    generation integer not null check (generation >= 0),
    node text not null check (node <> ''),
    fingerprint_id text references raw.fingerprint (fingerprint_id),
    primary key (run_key, series_key, generation, node, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key)
) partition by range (run_at);
comment on table raw.measurement_node is 'Nodes of a measurement, with their state';
comment on column raw.measurement_node.run_at is 'Start of the run; the month is the partition';
comment on column raw.measurement_node.run_key is 'The run';
comment on column raw.measurement_node.series_key is 'Series of the case on the run''s cluster';
comment on column raw.measurement_node.generation is 'Generation of the measurement';
comment on column raw.measurement_node.node is 'The node';
comment on column raw.measurement_node.fingerprint_id is
'Value in the last repeat that reports it; null if none does';

create table raw.repeat (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    generation integer not null check (generation >= 0),
    repeat integer not null check (repeat >= 1),
    started_at timestamptz,
    throughput double precision check (throughput > 0 and throughput < 'infinity'),
    step_throughput double precision
    check (step_throughput > 0 and step_throughput < 'infinity'),
    window_s double precision check (window_s > 0 and window_s < 'infinity'),
    samples double precision check (samples > 0 and samples < 'infinity'),
    overlap double precision,
    drift double precision,
    median_step_s double precision,
    time_to_first_step_s double precision,
    loss_first double precision,
    loss_median double precision,
    peak_resident_bytes bigint check (peak_resident_bytes > 0),
    sent_bytes_per_step bigint check (sent_bytes_per_step >= 0),
    data_wait_s double precision check (data_wait_s >= 0 and data_wait_s < 'infinity'),
    steps integer check (steps >= 0),
    status text not null check (status in ('ok', 'failed', 'aborted', 'disturbed')),
    slowest_rank text,
    error text check (error <> ''),
    reasons jsonb not null default '[]' check (jsonb_typeof(reasons) = 'array'),
    quarantine_reasons jsonb check (jsonb_typeof(quarantine_reasons) = 'array'),
    power_w double precision check (power_w > 0 and power_w < 'infinity'),
    peak_allocator_bytes bigint check (peak_allocator_bytes > 0),
    reported jsonb check (jsonb_typeof(reported) = 'object'),
    primary key (run_key, series_key, generation, repeat, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key)
) partition by range (run_at);
comment on table raw.repeat is 'One launch of the whole gang';
comment on column raw.repeat.run_at is 'Start of the run; the month is the partition';
comment on column raw.repeat.run_key is 'The run';
comment on column raw.repeat.series_key is 'Series of the case on the run''s cluster';
comment on column raw.repeat.generation is
'Number of times that a user requested to measure the case again';
comment on column raw.repeat.repeat is 'Number of the repeat, from 1';
comment on column raw.repeat.started_at is 'When the gang was launched';
comment on column raw.repeat.throughput is 'Units of work per second over all ranks';
comment on column raw.repeat.step_throughput is
'Throughput computed from the independently recorded step times';
comment on column raw.repeat.window_s is 'Length of the interval that was counted, seconds';
comment on column raw.repeat.samples is 'Units of work in that interval, over all ranks';
comment on column raw.repeat.overlap is
'Only for asynchronous training: common interval of all trainers / shortest window';
comment on column raw.repeat.drift is
'Median step of the window''s last third / of its first third - 1';
comment on column raw.repeat.median_step_s is 'Median step of the slowest rank, seconds';
comment on column raw.repeat.time_to_first_step_s is
'Process start to the end of the first step, seconds';
comment on column raw.repeat.loss_first is 'Loss of the untrained weights';
comment on column raw.repeat.loss_median is 'Median loss in the window';
comment on column raw.repeat.peak_resident_bytes is 'Largest resident memory of any rank, bytes';
comment on column raw.repeat.sent_bytes_per_step is
'Bytes that a rank sends in a step, the highest of all ranks; null if the line does not count them';
comment on column raw.repeat.data_wait_s is
'Seconds that a step of the rank that waited longest waited for its batch; null for synthetic data';
comment on column raw.repeat.steps is 'Steps of the slowest rank in the window';
comment on column raw.repeat.status is
'ok, failed, aborted, or disturbed (other processes ran during the measurement window; such a '
'repeat does not count)';
comment on column raw.repeat.slowest_rank is
'Process with the longest window: its steps are in raw.repeat_rank while that is kept';
comment on column raw.repeat.error is
'End of the traceback of the process that failed, or of its output; null if none did';
comment on column raw.repeat.reasons is
'Reasons why the repeat does not count, each {code, node, subject, observed, expected}; empty '
'if it counts';
comment on column raw.repeat.quarantine_reasons is
'The checks that refused it, each {code, node, subject, observed, expected}; null if none did';
comment on column raw.repeat.power_w is
'Mean power of all devices in the measurement windows, W; null if unknown';
comment on column raw.repeat.peak_allocator_bytes is
'Largest device memory that the allocator of any rank had reserved, bytes; null if no allocator '
'counts it';
comment on column raw.repeat.reported is
'Values that a training script printed itself in the window: by name, as printed, median of the '
'ranks; null if none';

create table raw.repeat_rank (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    generation integer not null,
    repeat integer not null,
    rank integer not null check (rank >= 0),
    samples_per_step double precision,
    window_open_s double precision,
    window_close_s double precision,
    window_wall_s double precision,
    time_to_first_step_s double precision,
    loss_first double precision,
    clock_offset_s double precision,
    clock_error_s double precision check (clock_error_s >= 0),
    parameters bigint,
    peak_resident_bytes bigint,
    peak_allocator_bytes bigint,
    sent_bytes_per_step bigint check (sent_bytes_per_step >= 0),
    data_wait_s double precision check (data_wait_s >= 0 and data_wait_s < 'infinity'),
    process text not null check (process <> ''),
    role text not null check (role <> ''),
    node text not null check (node <> ''),
    fingerprint_id text,
    weights_digest text,
    precision text,
    transport text,
    versions jsonb not null default '{}',
    step_seconds double precision[] not null,
    step_end_s double precision[] not null,
    loss_window double precision[] not null,
    primary key (run_key, series_key, generation, repeat, process, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key)
) partition by range (run_at);
comment on table raw.repeat_rank is
'One process of a repeat with its own measurements and step times; kept only for some months';
comment on column raw.repeat_rank.run_at is 'Start of the run; the month is the partition';
comment on column raw.repeat_rank.run_key is 'The run';
comment on column raw.repeat_rank.series_key is 'Series of the case on the run''s cluster';
comment on column raw.repeat_rank.generation is 'Generation of the repeat';
comment on column raw.repeat_rank.repeat is 'The repeat';
comment on column raw.repeat_rank.rank is 'Number of the process in its role, from 0';
comment on column raw.repeat_rank.samples_per_step is 'Units of work of this rank in a step';
comment on column raw.repeat_rank.window_open_s is
'Start of the window on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.window_close_s is
'End of the window on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.window_wall_s is
'Length of the window, measured by a second, independent clock, seconds';
comment on column raw.repeat_rank.time_to_first_step_s is
'Process start to the end of the first step, seconds';
comment on column raw.repeat_rank.loss_first is 'Loss of the untrained weights';
comment on column raw.repeat_rank.clock_offset_s is
'The node''s monotonic clock minus the controller''s, seconds';
comment on column raw.repeat_rank.clock_error_s is
'Largest possible error of clock_offset_s, seconds';
comment on column raw.repeat_rank.parameters is 'Parameters of its model';
comment on column raw.repeat_rank.peak_resident_bytes is 'Largest resident memory';
comment on column raw.repeat_rank.peak_allocator_bytes is
'Largest memory of the framework''s allocator on the device';
comment on column raw.repeat_rank.sent_bytes_per_step is
'Bytes that it sent in a step, where its line counts them';
comment on column raw.repeat_rank.data_wait_s is
'Seconds that a step waited for its batch, mean over the window; null for synthetic data';
comment on column raw.repeat_rank.process is 'trainer-0, pserver-1';
comment on column raw.repeat_rank.role is 'Role in its framework: trainer, pserver, ...';
comment on column raw.repeat_rank.node is 'Node that it ran on';
comment on column raw.repeat_rank.fingerprint_id is 'Hardware and software of the node';
comment on column raw.repeat_rank.weights_digest is 'Digest of its weights after the window';
comment on column raw.repeat_rank.precision is 'Precision that the rank found in use';
comment on column raw.repeat_rank.transport is 'How ranks exchanged gradients';
comment on column raw.repeat_rank.versions is 'Versions of the loaded libraries, by name';
comment on column raw.repeat_rank.step_seconds is 'Step times in the window, seconds, in order';
comment on column raw.repeat_rank.step_end_s is
'Ends of the steps of warm-up, window and drain on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.loss_window is 'Losses in the window, in order';

create table raw.failed_check (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    generation integer not null,
    repeat integer not null,
    ordinal integer not null check (ordinal >= 0),
    subject text not null check (subject in ('repeat', 'measurement')),
    check_name text not null check (check_name <> ''),
    severity text not null check (severity in ('fail', 'warn')),
    observed text not null,
    expected text not null,
    primary key (run_key, series_key, generation, repeat, check_name, ordinal, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key),
    check ((repeat = 0) = (subject = 'measurement'))
) partition by range (run_at);
comment on table raw.failed_check is
'Check that a result did not pass; passed checks are only counted, with the median';
comment on column raw.failed_check.run_at is 'Start of the run; the month is the partition';
comment on column raw.failed_check.run_key is 'The run';
comment on column raw.failed_check.series_key is 'Series of the case on the run''s cluster';
comment on column raw.failed_check.generation is 'Generation of the result';
comment on column raw.failed_check.repeat is '0 if the subject is the measurement';
comment on column raw.failed_check.ordinal is 'Distinguishes results of one check on one subject';
comment on column raw.failed_check.subject is 'repeat or measurement';
comment on column raw.failed_check.check_name is 'The check';
comment on column raw.failed_check.severity is 'fail quarantines the subject, warn does not';
comment on column raw.failed_check.observed is 'Observed value';
comment on column raw.failed_check.expected is 'Expected value';

create table raw.verdict (
    run_at timestamptz not null,
    run_key integer not null,
    series_key integer not null,
    history integer not null default 0 check (history >= 0),
    value double precision,
    baseline double precision,
    change double precision,
    low double precision,
    high double precision,
    smallest_slowdown double precision check (smallest_slowdown > 0 and smallest_slowdown < 1),
    since timestamptz,
    kind text not null
    check (
        kind in (
            'ok', 'watched', 'regressed', 'improved', 'insufficient_data', 'failed', 'unavailable',
            'missing'
        )
    ),
    sentence text not null,
    first_bad_run_id text,
    last_good_run_id text,
    level_change double precision,
    metric text not null default 'throughput'
    check (
        metric in (
            'throughput', 'tokens_per_s_per_device', 'tflops_per_device', 'mfu', 'joules_per_unit',
            'peak_resident_bytes', 'peak_allocator_bytes'
        )
    ),
    training text check (training in ('same', 'changed', 'not_comparable')),
    training_sentence text check ((training_sentence is null) = (training is null)),
    primary key (run_key, series_key, run_at),
    foreign key (run_key, series_key) references raw.planned_case (run_key, series_key)
) partition by range (run_at);
create index verdict_by_series on raw.verdict (series_key, run_at desc);
create index verdict_changed_training on raw.verdict (series_key, run_at)
where training = 'changed';
comment on table raw.verdict is 'Verdict of a run on a series, with the evidence in a sentence';
comment on column raw.verdict.run_at is 'Start of the run; the month is the partition';
comment on column raw.verdict.run_key is 'The run';
comment on column raw.verdict.series_key is 'The series';
comment on column raw.verdict.history is 'Number of nights that the verdict is based on';
comment on column raw.verdict.value is 'Value of the metric in this run';
comment on column raw.verdict.baseline is 'Value that tonight''s value is compared with';
comment on column raw.verdict.change is
'value / baseline - 1 of this night; may be outside of the interval of the level';
comment on column raw.verdict.low is 'Lower end of the 90 % interval of level_change';
comment on column raw.verdict.high is 'Upper end of the 90 % interval of level_change';
comment on column raw.verdict.smallest_slowdown is
'Minimum detectable slowdown: a lasting relative drop of this size is reported within a week in '
'nine of ten cases; null if not judged';
comment on column raw.verdict.since is 'First night at the new level';
comment on column raw.verdict.kind is 'The verdict';
comment on column raw.verdict.sentence is 'The evidence';
comment on column raw.verdict.first_bad_run_id is 'Run of the first night at the new level';
comment on column raw.verdict.last_good_run_id is
'Last run before the change; of a failed or missing case the last run with a value';
comment on column raw.verdict.level_change is
'Estimate of the level''s relative change, between low and high';
comment on column raw.verdict.training is
'Whether the case trained as before; null without a result, or if the suite does not compare '
'losses';
comment on column raw.verdict.training_sentence is 'The evidence for training';
comment on column raw.verdict.metric is
'Metric that was judged, by its column in marts.fct_measurement: value and baseline refer to it';
