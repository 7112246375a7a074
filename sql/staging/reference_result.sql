-- Grain: one row per cell of the public benchmarks. The original words are kept as `*_text`;
-- a null axis is one that the original does not state.
create or replace view staging.reference_result as
with named as (
    select
        *,
        case
            when framework = 'paddlepaddle_v2' then 'paddle_v2'
            when framework = 'paddlepaddle_fluid' then 'paddle1'
            -- All of these documents are older than Paddle 2.
            when framework = 'paddlepaddle' then 'paddle1'
            when framework = 'tensorflow' and framework_version like '2%' then 'tensorflow2'
            when framework = 'tensorflow' then 'tensorflow1'
            else framework
        end as line
    from raw.reference_result
)

select
    reference_id,
    source as source_document,
    figure,
    case workload
        -- The PaddlePaddle models of that name have the stride in the 3x3 convolution.
        when 'resnet50' then 'resnet50_v1.5'
        when 'bert' then 'bert_base'
        when 'transformer' then 'transformer_base'
        when 'se_resnet50' then 'se_resnext50_32x4d'
        else workload
    end as workload,
    workload as workload_text,
    nullif(dataset, '') as dataset,
    line as framework,
    framework as framework_text,
    nullif(framework_version, '') as framework_version,
    mode as strategy,
    nullif(nodes, '')::integer as nodes,
    nullif(devices_per_node, '')::integer as devices_per_node,
    nullif(device, '') as device,
    nullif(trainers, '')::integer as trainers,
    nullif(pservers, '')::integer as pservers,
    case when batch_size_per_device ~ '^[0-9]+$' then batch_size_per_device::integer end
        as batch_size_per_device,
    batch_size_per_device as batch_size_text,
    -- On the V100 that all of these report, mixed precision is half precision.
    case precision when 'amp' then 'fp16' when '' then null else precision end as precision,
    precision as precision_text,
    case compiler when '' then 'none' else compiler end as compiler,
    case variant when 'async' then 'async' when 'geo_sgd' then 'geo' end as sync,
    case
        when variant like 'dgc,%' then 'dgc'
        when variant like 'dense,%' then 'none'
    end as compression,
    substring(variant from '(\d+) Gbit/s')::integer as link_gbit_per_s,
    nullif(variant, '') as variant_text,
    -- Which of several programs, where the variant is not an axis of ours.
    case
        when variant !~ '^(async|geo_sgd|dgc,.*|dense,.*|)$' then variant
    end as implementation,
    metric,
    case
        -- One sample of an image workload is one image.
        when workload = 'vgg16_cifar' and unit = 'samples/s' then 'images'
        when unit like 'as labelled%' then null
        when unit like '%/s' then left(unit, -2)
        else unit
    end as unit,
    unit as unit_text,
    unit like 'as labelled%' as is_unit_doubtful,
    value,
    value is null as is_empty,
    nullif(remark, '') as remark
from named;

comment on view staging.reference_result is
'One row per cell of the public benchmarks, in the words used here';
comment on column staging.reference_result.is_empty is 'The original leaves the cell empty';
comment on column staging.reference_result.is_unit_doubtful is
'The original''s axis label contradicts its magnitude: compare ratios only';
