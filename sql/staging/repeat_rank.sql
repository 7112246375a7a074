-- Grain: one row per process of a repeat, of every generation, for as long as ranks are kept.
create or replace view staging.repeat_rank as
select
    r.run_id,
    s.case_id,
    r.cluster,
    k.generation,
    k.repeat,
    k.process,
    k.role,
    k.rank,
    k.node,
    k.fingerprint_id,
    k.clock_offset_s,
    k.clock_error_s,
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
    k.data_wait_s,
    k.peak_allocator_bytes,
    k.precision,
    k.transport,
    k.versions
from raw.repeat_rank as k
inner join raw.run as r on k.run_key = r.run_key and k.run_at = r.started_at
inner join raw.series as s on k.series_key = s.series_key;

comment on view staging.repeat_rank is 'One row per process of a repeat';
comment on column staging.repeat_rank.steps is 'Steps in the window';
comment on column staging.repeat_rank.samples is 'Units of work of this rank in the window';
