-- Grain: one row per run and case that came back: its last generation, quarantined or not.
create or replace view staging.measurement as
with last_generation as (
    select distinct on (run_id, case_id) *
    from raw.measurement
    order by run_id asc, case_id asc, generation desc
),

node_names as (
    select
        run_id,
        case_id,
        generation,
        array_agg(distinct node order by node) as node_names
    from raw.repeat_rank
    group by run_id, case_id, generation
)

select
    m.run_id,
    m.case_id,
    m.generation,
    m.status,
    m.reasons,
    m.build_id,
    m.framework_version,
    m.unit,
    m.n,
    m.throughput,
    m.minimum as throughput_min,
    m.maximum as throughput_max,
    m.mad as throughput_mad,
    m.spread,
    m.half_width,
    m.speedup,
    m.efficiency,
    m.baseline_case_id,
    m.found_batch_size,
    m.time_to_first_step_s,
    m.peak_resident_bytes,
    m.sent_bytes_per_step,
    nullif(m.definition_digest, '') as definition_digest,
    nullif(m.fingerprint_id, '') as fingerprint_id,
    m.elapsed_s,
    q.reasons is not null as is_quarantined,
    q.reasons as quarantine_reasons,
    n.node_names
from last_generation as m
left join raw.quarantine as q
    on
        m.run_id = q.run_id
        and m.case_id = q.case_id
        and m.generation = q.generation
        and q.subject = 'measurement'
left join node_names as n
    on
        m.run_id = n.run_id
        and m.case_id = n.case_id
        and m.generation = n.generation;

comment on view staging.measurement is
'One row per run and case: the last generation, quarantined or not';
