-- Grain: one row per process of a repeat, of every generation.
create or replace view staging.repeat_rank as
select
    k.run_id,
    k.case_id,
    k.generation,
    k.repeat,
    k.process,
    k.role,
    k.rank,
    k.node,
    n.fingerprint_id,
    n.clock_offset_s,
    n.clock_error_s,
    k.samples_per_step,
    cardinality(k.step_seconds) as steps,
    k.samples_per_step * cardinality(k.step_seconds) as samples,
    k.window_open_s,
    k.window_close_s,
    k.window_wall_s,
    k.step_seconds,
    k.step_end_s,
    k.time_to_first_step_s,
    k.loss_first,
    k.loss_window,
    k.weights_digest,
    k.parameters,
    k.peak_resident_bytes,
    k.sent_bytes_per_step,
    k.peak_allocator_bytes,
    k.precision,
    k.transport,
    k.versions
from raw.repeat_rank as k
left join raw.repeat_node as n
    on
        k.run_id = n.run_id
        and k.case_id = n.case_id
        and k.generation = n.generation
        and k.repeat = n.repeat
        and k.node = n.node;

comment on view staging.repeat_rank is 'One row per process of a repeat';
