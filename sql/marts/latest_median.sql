-- Grain: one row per series: its newest good median. Excluded: drills, confirmations, acceptance
-- tests and private builds. Columns are those of marts.fct_measurement; the axes come from the
-- series, so that series are chosen before their medians are looked up.
-- `axes of s` and `figures of m`: nightbench/warehouse/columns.py inserts these columns.
create or replace view marts.latest_median as
select
    s.case_id,
    s.cluster,
    m.run_id,
    m.suite,
    m.run_kind,
    m.started_at,
    m.is_imported,
    m.batch_size_per_device,
    m.global_batch_size,
    m.is_batch_found,
    /* axes of s */
    m.environment,
    s.is_synthetic,
    s.axes,
    m.build_id,
    m.is_private_build,
    m.untried,
    m.unit,
    /* figures of m */
    m.throughput_min,
    m.throughput_max,
    m.throughput_mad,
    m.minibatches_per_s,
    m.tokens_per_s_per_device,
    m.tflops_per_device,
    m.definition_digest,
    m.fingerprint_id,
    m.node_names,
    m.elapsed_s,
    s.series_key,
    m.run_key
from staging.series as s
cross join lateral (
    -- Stops at the newest month that has one.
    select f.*
    from marts.fct_measurement as f
    where
        f.series_key = s.series_key
        and f.run_kind not in ('drill', 'confirm', 'acceptance')
        and not f.is_private_build
        and not exists (
            select from staging.changed_training as t
            where t.series_key = s.series_key and f.started_at between t.since and t.until
        )
    order by f.started_at desc
    limit 1
) as m;

comment on view marts.latest_median is
'One row per series: its newest good median, without nights whose training changed until a user '
'accepts the change';
