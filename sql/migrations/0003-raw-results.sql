-- What came back. `throughput > 0 and throughput < 'infinity'` also refuses NaN, which
-- PostgreSQL sorts above infinity. Times are seconds, sizes are bytes, throughput is in units of
-- work per second; the unit stands in raw.measurement.unit.
create table raw.fingerprint (
    fingerprint_id text primary key check (fingerprint_id <> ''),
    document jsonb not null check (jsonb_typeof(document) = 'object')
);
comment on table raw.fingerprint is 'Hardware and software of a node as found, once for each state';

create table raw.repeat (
    run_id text not null,
    case_id text not null,
    generation integer not null check (generation >= 0),
    repeat integer not null check (repeat >= 1),
    status text not null check (status in ('ok', 'failed', 'aborted')),
    reason text,
    started_at timestamptz,
    throughput double precision check (throughput > 0 and throughput < 'infinity'),
    step_throughput double precision
    check (step_throughput > 0 and step_throughput < 'infinity'),
    window_s double precision check (window_s > 0 and window_s < 'infinity'),
    samples double precision check (samples > 0 and samples < 'infinity'),
    overlap double precision,
    drift double precision,
    time_to_first_step_s double precision,
    peak_resident_bytes bigint check (peak_resident_bytes > 0),
    loss_first double precision,
    loss_median double precision,
    problem text,
    slowest_rank text,
    step_seconds double precision[],
    primary key (run_id, case_id, generation, repeat),
    foreign key (run_id, case_id) references raw.planned_case (run_id, case_id)
);
comment on table raw.repeat is 'One fresh launch of the whole gang';
comment on column raw.repeat.generation is 'Counts how often a person asked for the case again';
comment on column raw.repeat.throughput is 'Units of work per second over all ranks';
comment on column raw.repeat.step_throughput is
'The same figure from the independently recorded step times';
comment on column raw.repeat.window_s is 'Length of the interval that was counted, seconds';
comment on column raw.repeat.samples is 'Units of work in that interval, over all ranks';
comment on column raw.repeat.overlap is 'Asynchronous only: common interval / shortest window';
comment on column raw.repeat.drift is
'Median step of the window''s last third / of its first third - 1';
comment on column raw.repeat.peak_resident_bytes is 'Largest resident memory of any rank, bytes';
comment on column raw.repeat.problem is 'Why there is no throughput';
comment on column raw.repeat.step_seconds is
'Step times of the slowest rank in the measured window, seconds, in order';

create table raw.repeat_node (
    run_id text not null,
    case_id text not null,
    generation integer not null,
    repeat integer not null,
    node text not null check (node <> ''),
    fingerprint_id text references raw.fingerprint (fingerprint_id),
    clock_offset_s double precision,
    clock_error_s double precision check (clock_error_s >= 0),
    primary key (run_id, case_id, generation, repeat, node),
    foreign key (run_id, case_id, generation, repeat)
    references raw.repeat (run_id, case_id, generation, repeat)
);
comment on table raw.repeat_node is 'The nodes of a repeat: what they were, how their clocks stood';
comment on column raw.repeat_node.clock_offset_s is
'The node''s monotonic clock minus the controller''s, seconds';

create table raw.repeat_rank (
    run_id text not null,
    case_id text not null,
    generation integer not null,
    repeat integer not null,
    process text not null check (process <> ''),
    role text not null check (role in ('trainer', 'pserver')),
    rank integer not null check (rank >= 0),
    node text not null check (node <> ''),
    samples_per_step double precision,
    window_open_s double precision,
    window_close_s double precision,
    window_wall_s double precision,
    step_seconds double precision[] not null,
    step_end_s double precision[] not null,
    time_to_first_step_s double precision,
    loss_first double precision,
    loss_window double precision[] not null,
    weights_digest text,
    parameters bigint,
    peak_resident_bytes bigint,
    peak_allocator_bytes bigint,
    precision text,
    transport text,
    versions jsonb not null default '{}',
    primary key (run_id, case_id, generation, repeat, process),
    foreign key (run_id, case_id, generation, repeat)
    references raw.repeat (run_id, case_id, generation, repeat)
);
comment on table raw.repeat_rank is 'One process of a repeat, as it measured itself';
comment on column raw.repeat_rank.process is 'trainer-0, pserver-1';
comment on column raw.repeat_rank.samples_per_step is 'Units of work of this rank in a step';
comment on column raw.repeat_rank.window_open_s is
'Start of the window on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.window_close_s is
'End of the window on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.window_wall_s is
'Length of the window by a clock pair of its own, seconds';
comment on column raw.repeat_rank.step_seconds is 'Step times in the window, seconds, in order';
comment on column raw.repeat_rank.step_end_s is
'Ends of the steps of warm-up, window and drain on the node''s monotonic clock, seconds';
comment on column raw.repeat_rank.loss_first is 'Loss of the untrained weights';

create table raw.measurement (
    run_id text not null,
    case_id text not null,
    generation integer not null check (generation >= 0),
    status text not null check (status in ('ok', 'failed', 'cancelled')),
    reason text,
    build_id text not null references raw.build (build_id),
    framework_version text,
    unit text not null,
    n integer not null check (n >= 0),
    throughput double precision check (throughput > 0 and throughput < 'infinity'),
    minimum double precision check (minimum > 0),
    maximum double precision check (maximum < 'infinity'),
    mad double precision check (mad >= 0 and mad < 'infinity'),
    spread double precision check (spread >= 0 and spread < 'infinity'),
    half_width double precision check (half_width >= 0),
    speedup double precision check (speedup > 0 and speedup < 'infinity'),
    efficiency double precision check (efficiency > 0 and efficiency < 'infinity'),
    baseline_case_id text,
    time_to_first_step_s double precision,
    peak_resident_bytes bigint check (peak_resident_bytes > 0),
    definition_digest text not null default '',
    fingerprint_id text not null default '',
    elapsed_s double precision check (elapsed_s >= 0 and elapsed_s < 'infinity'),
    primary key (run_id, case_id, generation),
    foreign key (run_id, case_id) references raw.planned_case (run_id, case_id),
    constraint throughput_in_range check (throughput between minimum and maximum)
);
comment on table raw.measurement is
'The median over the good repeats of a case, quarantined ones included: use marts.fct_measurement';
comment on column raw.measurement.n is 'Repeats that the median rests on';
comment on column raw.measurement.throughput is 'Median, units of work per second';
comment on column raw.measurement.minimum is 'Smallest repeat, units of work per second';
comment on column raw.measurement.maximum is 'Largest repeat, units of work per second';
comment on column raw.measurement.mad is
'Median absolute deviation of the repeats, units of work per second';
comment on column raw.measurement.spread is '(maximum - minimum) / median';
comment on column raw.measurement.half_width is
'Relative 95 % confidence half-width, t distribution on log values; null for n < 3';
comment on column raw.measurement.speedup is 'throughput / throughput of the baseline case';
comment on column raw.measurement.efficiency is 'speedup / (ranks / ranks of the baseline case)';
comment on column raw.measurement.elapsed_s is
'Seconds that the case took from preparing to its last repeat';

create table raw.check_result (
    run_id text not null,
    case_id text not null,
    generation integer not null,
    subject text not null check (subject in ('repeat', 'measurement')),
    repeat integer not null check ((repeat = 0) = (subject = 'measurement')),
    check_name text not null check (check_name <> ''),
    ordinal integer not null check (ordinal >= 0),
    severity text not null check (severity in ('fail', 'warn')),
    success boolean not null,
    observed text not null,
    expected text not null,
    primary key (run_id, case_id, generation, subject, repeat, check_name, ordinal),
    foreign key (run_id, case_id) references raw.planned_case (run_id, case_id)
);
comment on table raw.check_result is 'One expectation held against one result';
comment on column raw.check_result.repeat is '0 where the subject is the measurement';
comment on column raw.check_result.ordinal is 'Tells apart results of one check on one subject';

create table raw.quarantine (
    run_id text not null,
    case_id text not null,
    generation integer not null,
    subject text not null check (subject in ('repeat', 'measurement')),
    repeat integer not null check ((repeat = 0) = (subject = 'measurement')),
    reasons text[] not null check (cardinality(reasons) >= 1),
    primary key (run_id, case_id, generation, subject, repeat),
    foreign key (run_id, case_id) references raw.planned_case (run_id, case_id)
);
comment on table raw.quarantine is 'Results that failed a check: kept, with reasons, out of marts';
comment on column raw.quarantine.reasons is 'check: observed, expected';
