-- Grain: one row per repeat, of every generation.
create or replace view staging.repeat as
select
    e.run_key,
    e.series_key,
    e.run_at,
    r.run_id,
    s.case_id,
    r.suite,
    r.cluster,
    r.run_kind,
    e.generation,
    e.repeat,
    e.status,
    e.reasons,
    e.started_at,
    e.throughput,
    e.step_throughput,
    e.window_s,
    e.samples,
    e.steps,
    e.median_step_s,
    e.overlap,
    e.drift,
    e.time_to_first_step_s,
    e.peak_resident_bytes,
    e.peak_allocator_bytes,
    e.sent_bytes_per_step,
    e.data_wait_s,
    e.power_w,
    e.loss_first,
    e.loss_median,
    e.reported,
    e.slowest_rank,
    e.quarantine_reasons is not null as is_quarantined,
    e.quarantine_reasons,
    e.error
from raw.repeat as e
inner join raw.run as r on e.run_key = r.run_key and e.run_at = r.started_at
inner join raw.series as s on e.series_key = s.series_key;

comment on view staging.repeat is 'One row per repeat, of every generation';
comment on column staging.repeat.is_quarantined is 'A check rejected the repeat';
