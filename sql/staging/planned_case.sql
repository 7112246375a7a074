-- Grain: one row per run and planned case.
create or replace view staging.planned_case as
select
    run_id,
    case_id,
    workload,
    framework,
    strategy,
    nodes,
    devices_per_node,
    trainers,
    pservers,
    batch_size_per_device,
    batch_size_per_device * trainers as global_batch_size,
    precision,
    -- Outside a parameter server the axis says nothing.
    case when strategy = 'parameter_server' then sync end as sync,
    compiler,
    axes ->> 'execution' as execution,
    axes ->> 'layout' as layout,
    (axes ->> 'sequence_length')::integer as sequence_length,
    compression,
    axes ->> 'link_bandwidth' as link_bandwidth,
    (axes ->> 'threads')::integer as threads,
    (axes ->> 'sparsity')::double precision as sparsity,
    (axes ->> 'cpus')::integer as cpus,
    (axes ->> 'memory_mb')::integer as memory_mb,
    data,
    data = 'synthetic' as is_synthetic,
    scale,
    axes,
    build_id,
    private_build as is_private_build,
    unit,
    nullif(definition_digest, '') as definition_digest,
    left_out
from raw.planned_case;

comment on view staging.planned_case is 'One row per run and planned case';
