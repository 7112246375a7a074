-- Grain: one row per series and run, as marts.fct_measurement: what limits a step. Each share is the
-- part of a step that the devices' own speed in the same run explains:
--
-- - input: the wait for a batch, as measured.
-- - compute: model FLOPs divided by the rate of the matrix product, which is in fp32. With another
--   precision it is MFU, the share of the published peak.
-- - memory: six passes over the parameters divided by the rate of memory copies. It is the least
--   that a step reads and writes; activations are not counted.
-- - network: the gradients of all parameters in fp32, or the counted bytes, divided by the rate of
--   the all-reduce over TCP.
--
-- A wait of a tenth is a bound, because nothing overlaps it; else the largest other share, if it is
-- a half or more. A CPU's control measurements depend on Python's interpreter and are not used.
create or replace view marts.roofline as
with figures as (
    select
        m.case_id,
        m.cluster,
        m.run_id,
        m.started_at,
        m.strategy,
        1 / m.minibatches_per_s as step_s,
        m.tflops_per_device,
        r.parameters,
        case
            when m.is_synthetic then 0
            else m.data_wait_s * m.minibatches_per_s
        end as input_share,
        case
            when m.precision = 'fp32'
                then 1000 * m.tflops_per_device / d.matrix_product_gflops
            else m.mfu
        end as compute_share,
        -- A copy of n bytes reads n and writes n.
        6 * r.parameters * case when m.precision = 'fp32' then 4 else 2 end
        / (2 * d.memory_copy_gb_per_s * 1e9)
        * m.minibatches_per_s as memory_share,
        case
            when m.nodes = 1 then 0
            when r.is_tcp and m.shard = 1 and m.link_bandwidth = 'full'
                then
                    coalesce(m.sent_bytes_per_step, 4 * r.parameters)
                    / (n.all_reduce_gb_per_s * 1e9)
                    * m.minibatches_per_s
        end as network_share
    from marts.fct_measurement as m
    left join lateral (
        select
            max(k.parameters) as parameters,
            bool_and(k.transport ~ 'tcp|socket') as is_tcp
        from raw.repeat_rank as k
        where
            k.run_key = m.run_key
            and k.series_key = m.series_key
            and k.run_at = m.started_at
    ) as r on true
    left join lateral (
        select
            min(c.median) filter (where c.metric = 'matrix_product') as matrix_product_gflops,
            min(c.median) filter (where c.metric = 'memory_copy') as memory_copy_gb_per_s
        from raw.control as c
        where
            c.run_id = m.run_id
            and c.cluster = m.cluster
            and c.node = any(m.node_names)
            and c.device like 'gpu-%'
    ) as d on true
    left join lateral (
        select min(c.median) as all_reduce_gb_per_s
        from raw.control as c
        where
            c.run_id = m.run_id
            and c.cluster = m.cluster
            and c.metric = 'all_reduce'
            and string_to_array(c.node, '+') @> m.node_names
    ) as n on true
),

shares as (
    select
        *,
        greatest(compute_share, memory_share, network_share) as largest
    from figures
)

select
    case_id,
    cluster,
    run_id,
    started_at,
    case
        when strategy = 'parameter_server' then null
        when input_share >= 0.1 then 'input'
        when largest < 0.5 then null
        when compute_share = largest then 'compute'
        when memory_share = largest then 'memory'
        when network_share = largest then 'network'
    end as bound,
    case
        when strategy = 'parameter_server' then 'trainers of parameter servers have no common step'
        when input_share >= 0.1 or largest >= 0.5 then null
        when compute_share is null and memory_share is null
            then 'no control measurement of its devices in this run'
        else 'no share that is known takes half of a step'
    end as absent,
    step_s,
    input_share,
    compute_share,
    memory_share,
    network_share,
    tflops_per_device,
    parameters
from shares;

comment on view marts.roofline is
'One row per series and run, as marts.fct_measurement: the limit of a step, and the control '
'measurements of the same run that show it';
comment on column marts.roofline.bound is
'input, compute, memory or network. input: a step waits for a tenth of its time or longer; else '
'the largest other share, if it is a half or more. Null: see absent';
comment on column marts.roofline.absent is 'Why the bound is unknown; null if it is known';
comment on column marts.roofline.step_s is 'Seconds of a step: global_batch_size / throughput';
comment on column marts.roofline.input_share is
'Time that a step waits for its batch, divided by the step time; 0 for synthetic data, null '
'if it was not measured';
comment on column marts.roofline.compute_share is
'Model FLOP/s of a device, divided by the matrix product rate of the slowest device; for '
'other precisions than fp32, the MFU';
comment on column marts.roofline.memory_share is
'Lower bound of the memory share: time of six passes over the parameters, at the memory copy '
'rate of the slowest device, divided by the step time. Activations are not counted';
comment on column marts.roofline.network_share is
'Time to exchange the gradients by the all-reduce between the nodes, divided by the step time. '
'Overlap is not subtracted. 0 on one node; null if the ranks did not use TCP, the case is '
'sharded or its links are limited';
comment on column marts.roofline.parameters is 'Trainable parameters, as ranks counted them';
