-- Grain: one row per published value or empty cell, and per series whose latest median matches it
-- on every axis that the original states. If no series matches, one row has nulls. The published
-- hardware is always another one: a value to compare with, no target.
create or replace view marts.fct_reference as
with latest as (
    -- Full scale only: a smoke run does another amount of work.
    select *
    from marts.latest_median
    where scale = 'full'
),

matched as (
    select
        f.reference_id,
        l.*,
        case
            when f.metric = 'throughput' and f.unit = 'mini-batches' then l.minibatches_per_s
            when f.metric = 'throughput' and f.unit = l.unit then l.throughput
            when f.metric = 'speedup' then l.speedup
            when f.metric = 'scaling_efficiency' then 100 * l.efficiency
            when f.metric = 'mfu' then 100 * l.mfu
            when f.metric = 'tflops' then l.model_flops_per_s / 1e12 / l.trainers
            when f.metric = 'tokens_per_device'
                then
                    coalesce(l.tokens_per_s, case when l.unit = 'tokens' then l.throughput end)
                    / l.trainers
        end as measured_value
    from staging.reference_result as f
    inner join latest as l
        on
            f.workload = l.workload
            and f.framework = l.framework
            and f.strategy = l.strategy
            and f.compiler = l.compiler
            -- No original states another way of execution.
            and l.execution = 'default'
            -- Where trainers alone are stated, each had a machine.
            and (
                f.nodes is not null
                or f.strategy <> 'parameter_server'
                or l.nodes >= l.trainers
            )
            and (f.nodes is null or f.nodes = l.nodes)
            and (f.devices_per_node is null or f.devices_per_node = l.devices_per_node)
            and (f.trainers is null or f.trainers = l.trainers)
            and (f.pservers is null or f.pservers = l.pservers)
            and (
                f.batch_size_per_device is null
                or f.batch_size_per_device = l.batch_size_per_device
            )
            and (f.precision is null or f.precision = l.precision)
            and (f.sync is null or f.sync = l.sync)
            and (f.compression is null or f.compression = l.compression)
            and (
                f.link_gbit_per_s is null
                or l.link_bandwidth = f.link_gbit_per_s || 'gbit'
            )
)

select
    f.reference_id,
    f.source_document,
    f.figure,
    f.workload,
    f.framework,
    f.framework_text,
    f.framework_version as published_version,
    f.strategy,
    f.nodes,
    f.devices_per_node,
    f.trainers,
    f.pservers,
    f.batch_size_per_device,
    f.batch_size_text,
    f.precision,
    f.precision_text,
    f.compiler,
    f.sync,
    f.variant_text,
    f.metric,
    f.unit_text as unit,
    f.is_unit_doubtful,
    f.is_empty,
    f.value as published_value,
    f.device as published_device,
    f.dataset as published_dataset,
    f.remark,
    m.case_id,
    m.cluster,
    m.run_id,
    m.started_at as measured_at,
    m.framework_version as measured_version,
    m.measured_value,
    m.n as measured_n,
    m.is_synthetic as measured_is_synthetic
from staging.reference_result as f
left join matched as m
    on f.reference_id = m.reference_id and m.measured_value is not null;

comment on view marts.fct_reference is
'One row per published value or empty cell and series that matches its stated axes';
comment on column marts.fct_reference.published_value is
'Published value in `unit`; null if is_empty';
comment on column marts.fct_reference.measured_value is
'Latest median of the series in the published unit, on other hardware';
comment on column marts.fct_reference.measured_is_synthetic is
'True: the measured value is from synthetic data and must be marked so';
