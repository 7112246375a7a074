-- Grain: one row per run and planned case, with what came of it: the last generation, quarantined
-- or not; `status` is null if nothing came.
-- `axes of s` and `figures of m`: nightbench/warehouse/columns.py inserts these columns.
create or replace view staging.result as
select
    p.run_key,
    p.series_key,
    r.started_at as run_at,
    r.run_id,
    s.case_id,
    r.suite,
    r.cluster,
    r.run_kind,
    r.started_at,
    r.loaded_at,
    r.origin = 'import' as is_imported,
    r.code_digest,
    coalesce(s.batch_size_per_device, m.found_batch_size) as batch_size_per_device,
    coalesce(s.global_batch_size, m.found_batch_size * s.trainers) as global_batch_size,
    /* axes of s */
    s.is_synthetic,
    s.axes,
    b.build_id,
    p.is_private_build,
    case
        when
            p.untried is not null
            and not exists (
                select 1
                from staging.tried_mode as t
                left join staging.run_driver as d on d.run_id = r.run_id
                where
                    t.cluster = s.cluster
                    and t.line = s.framework
                    and t.mode = s.mode
                    and t.build_id = b.build_id
                    and t.framework_version = coalesce(m.framework_version, '')
                    and t.driver = coalesce(d.driver, '')
            )
            then p.untried
    end as untried,
    p.left_out,
    coalesce(m.unit, p.unit) as unit,
    /* figures of m */
    m.generation,
    m.status,
    m.reasons,
    m.is_good,
    m.quarantine_reasons is not null as is_quarantined,
    m.quarantine_reasons,
    m.minimum as throughput_min,
    m.maximum as throughput_max,
    m.mad as throughput_mad,
    m.tokens_per_s / s.trainers as tokens_per_s_per_device,
    m.model_flops_per_s / s.trainers / 1e12 as tflops_per_device,
    nullif(coalesce(m.definition_digest, p.definition_digest), '') as definition_digest,
    nullif(m.fingerprint_id, '') as fingerprint_id,
    m.elapsed_s,
    m.node_names
from raw.planned_case as p
inner join raw.run as r on p.run_key = r.run_key
inner join staging.series as s on p.series_key = s.series_key
left join raw.measurement as m
    on
        p.run_key = m.run_key
        and p.series_key = m.series_key
        and p.run_at = m.run_at
        and not m.is_superseded
inner join raw.build as b on coalesce(m.build_key, p.build_key) = b.build_key;

comment on view staging.result is
'One row per run and planned case with its result, quarantined or not';
comment on column staging.result.run_at is 'Start of the run, as results and verdicts have it';
comment on column staging.result.status is
'Status of the case; null if it was planned and has no result';
comment on column staging.result.is_imported is
'Whether the result was imported from older results';
comment on column staging.result.batch_size_per_device is
'Samples in a step of one trainer; if the case has max, the batch size that was found';
comment on column staging.result.global_batch_size is 'Samples in a step of all trainers';
comment on column staging.result.is_synthetic is 'Whether the result is from synthetic data';
comment on column staging.result.unit is 'Unit of work: images, samples, tokens';
comment on column staging.result.untried is
'Why this configuration was untried on such devices; null once it has passed the cluster''s '
'acceptance test';
comment on column staging.result.is_quarantined is 'Whether a check rejected the result';
comment on column staging.result.tokens_per_s_per_device is 'tokens_per_s / trainers';
comment on column staging.result.tflops_per_device is 'model_flops_per_s / trainers, in TFLOP/s';
comment on column staging.result.definition_digest is
'Digest of workload and protocol; null if unknown';
comment on column staging.result.fingerprint_id is
'Fingerprint of the node, or a digest of the fingerprints of all nodes; null if unknown';
