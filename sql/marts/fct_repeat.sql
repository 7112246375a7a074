-- Grain: one row per repeat (one launch of the gang), of every generation, good or not.
create or replace view marts.fct_repeat as
select
    e.run_id,
    e.case_id,
    e.cluster,
    e.generation,
    e.repeat,
    e.suite,
    e.run_kind,
    c.workload,
    c.framework,
    c.strategy,
    e.started_at,
    e.status,
    e.reasons,
    e.is_quarantined,
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
    e.error
from staging.repeat as e
inner join staging.series as c on e.series_key = c.series_key
inner join raw.planned_case as p
    on e.run_key = p.run_key and e.series_key = p.series_key;

comment on view marts.fct_repeat is 'One row per repeat (one launch of the gang), good or not';
comment on column marts.fct_repeat.sent_bytes_per_step is
'Bytes that a rank sent in a step, the largest rank''s; null where they are not '
'counted';
comment on column marts.fct_repeat.data_wait_s is
'Seconds that a step of the rank that waited longest waited for its batch, mean over the window; '
'null for synthetic data';
comment on column marts.fct_repeat.power_w is
'Mean power of all devices in the measurement windows, W; null if unknown';
comment on column marts.fct_repeat.reasons is
'Reasons why the repeat does not count; marts.fct_reason has a row for each';
