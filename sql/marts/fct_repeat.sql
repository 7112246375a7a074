-- Grain: one row per repeat (one launch of the gang), of every generation, good or not.
create or replace view marts.fct_repeat as
select
    r.run_id,
    c.case_id,
    c.cluster,
    e.generation,
    e.repeat,
    r.suite,
    r.run_kind,
    c.workload,
    c.framework,
    c.strategy,
    e.started_at,
    e.status,
    e.reasons,
    e.quarantine_reasons is not null as is_quarantined,
    e.quarantine_reasons,
    e.throughput,
    p.unit,
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
    e.error
from raw.repeat as e
inner join raw.run as r on e.run_key = r.run_key and e.run_at = r.started_at
inner join staging.series as c on e.series_key = c.series_key
inner join raw.planned_case as p
    on e.run_key = p.run_key and e.series_key = p.series_key;

comment on view marts.fct_repeat is 'One row per repeat (one launch of the gang), good or not';
comment on column marts.fct_repeat.is_quarantined is 'Whether a check rejected the repeat';
