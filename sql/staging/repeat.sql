-- Grain: one row per repeat, of every generation.
create or replace view staging.repeat as
select
    r.run_id,
    r.case_id,
    r.generation,
    r.repeat,
    r.status,
    r.reasons,
    r.started_at,
    r.throughput,
    r.step_throughput,
    r.window_s,
    r.samples,
    r.overlap,
    r.drift,
    r.time_to_first_step_s,
    r.peak_resident_bytes,
    r.sent_bytes_per_step,
    r.loss_first,
    r.loss_median,
    r.slowest_rank,
    r.step_seconds,
    cardinality(r.step_seconds) as steps,
    q.reasons is not null as is_quarantined,
    q.reasons as quarantine_reasons,
    r.error
from raw.repeat as r
left join raw.quarantine as q
    on
        r.run_id = q.run_id
        and r.case_id = q.case_id
        and r.generation = q.generation
        and r.repeat = q.repeat
        and q.subject = 'repeat';

comment on view staging.repeat is 'One row per repeat, of every generation';
