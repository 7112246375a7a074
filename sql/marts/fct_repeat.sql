-- Grain: one row per repeat (one launch of the gang), of every generation, good or not.
create or replace view marts.fct_repeat as
with median_step as (
    select
        r.run_id,
        r.case_id,
        r.generation,
        r.repeat,
        percentile_cont(0.5) within group (order by s.step_s) as median_step_s
    from staging.repeat as r
    cross join lateral unnest(r.step_seconds) as s (step_s)
    group by r.run_id, r.case_id, r.generation, r.repeat
)

select
    e.run_id,
    e.case_id,
    u.cluster,
    e.generation,
    e.repeat,
    u.suite,
    u.run_kind,
    p.workload,
    p.framework,
    p.strategy,
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
    d.median_step_s,
    e.overlap,
    e.drift,
    e.time_to_first_step_s,
    e.peak_resident_bytes,
    e.sent_bytes_per_step,
    e.loss_first,
    e.loss_median,
    e.error
from staging.repeat as e
inner join staging.run as u on e.run_id = u.run_id
inner join staging.planned_case as p
    on e.run_id = p.run_id and e.case_id = p.case_id
left join median_step as d
    on
        e.run_id = d.run_id
        and e.case_id = d.case_id
        and e.generation = d.generation
        and e.repeat = d.repeat;

comment on view marts.fct_repeat is 'One row per repeat (one launch of the gang), good or not';
comment on column marts.fct_repeat.median_step_s is 'Median step of the slowest rank, seconds';
comment on column marts.fct_repeat.error is
'End of the traceback of the process that failed, or of its output; null where none did';
comment on column marts.fct_repeat.sent_bytes_per_step is
'Bytes of gradients that a rank sent in a step, the largest rank''s; null where they are not '
'counted';
comment on column marts.fct_repeat.throughput is 'Units of work per second over all ranks';
comment on column marts.fct_repeat.reasons is
'Why it does not count, as data; marts.fct_reason has a row for each';
