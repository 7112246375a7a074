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
            -- Trainers that the suites of dags/suites/recipes/ run as commands.
            when framework in ('maxtext', 'megatron_bridge', 'nemo', 'torchtitan') then 'external'
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
        -- A case that a recipe also runs has the name of its command.
        when 'llama3-8b'
            then
                case
                    when framework = 'megatron_bridge' then 'bridge_llama3_8b_fp8'
                    else workload
                end
        when 'llama3.1-8b'
            then
                case
                    when framework = 'nemo' then 'bridge_llama3_8b_' || precision
                    when framework = 'torchtitan' and variant = 'FSDP8 SAC' then 'titan_llama3_8b'
                    when
                        framework = 'torchtitan'
                        and variant in ('FSDP8 compile SAC', 'FSDP compile')
                        then 'titan_llama3_8b_compiled'
                    else workload
                end
        else workload
    end as workload,
    nullif(dataset, '') as dataset,
    line as framework,
    framework as framework_text,
    nullif(framework_version, '') as framework_version,
    mode as strategy,
    nullif(nodes, '')::integer as nodes,
    nullif(devices_per_node, '')::integer as devices_per_node,
    nullif(device, '') as device,
    -- FleetX and the page on distributed training count nodes, with a trainer on each.
    case
        when trainers = '' and mode = 'parameter_server' then nullif(nodes, '')
        else nullif(trainers, '')
    end::integer as trainers,
    nullif(pservers, '')::integer as pservers,
    case when batch_size_per_device ~ '^[0-9]+$' then batch_size_per_device::integer end
        as batch_size_per_device,
    batch_size_per_device as batch_size_text,
    -- On the V100 that all of these report, mixed precision is half precision.
    case
        when precision = 'amp' then 'fp16'
        -- The other precision of these steps is bf16, which is no axis of Nightbench for them.
        when precision ~ 'fp8|float8' or precision = '' then null
        else precision
    end as precision,
    precision as precision_text,
    case compiler when '' then 'none' else compiler end as compiler,
    case variant when 'async' then 'async' when 'geo_sgd' then 'geo' end as sync,
    case
        when variant like 'dgc,%' then 'dgc'
        when variant like 'dense,%' then 'none'
    end as compression,
    substring(variant from '(\d+) Gbit/s')::integer as link_gbit_per_s,
    nullif(variant, '') as variant_text,
    -- Name of one of several programs, if the variant is no axis of Nightbench.
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
comment on column staging.reference_result.source_document is 'Document that the cell is in';
comment on column staging.reference_result.workload is 'Workload, by Nightbench''s name';
comment on column staging.reference_result.dataset is 'Data set; null if it is not stated';
comment on column staging.reference_result.framework is 'Framework line';
comment on column staging.reference_result.framework_text is
'Framework, as written in the document';
comment on column staging.reference_result.framework_version is
'Version; null if it is not stated';
comment on column staging.reference_result.strategy is 'single, collective or parameter_server';
comment on column staging.reference_result.nodes is 'Nodes; null if they are not stated';
comment on column staging.reference_result.devices_per_node is
'Devices of each node; null if they are not stated';
comment on column staging.reference_result.device is 'Device; null if it is not stated';
comment on column staging.reference_result.trainers is
'Number of trainers; with parameter servers, the number of nodes if only nodes are stated; null '
'if neither is stated';
comment on column staging.reference_result.pservers is
'Parameter servers; null if they are not stated';
comment on column staging.reference_result.batch_size_per_device is
'Batch size; null if it is no number';
comment on column staging.reference_result.batch_size_text is
'Batch size, as written in the document';
comment on column staging.reference_result.precision is
'Precision, by Nightbench''s name; null if it is not stated, or is fp8';
comment on column staging.reference_result.precision_text is
'Precision, as written in the document';
comment on column staging.reference_result.compiler is 'Compiler; `none` without a compiler';
comment on column staging.reference_result.sync is
'How parameter servers are updated; null if it is not stated';
comment on column staging.reference_result.compression is
'Compression of gradients; null if it is not stated';
comment on column staging.reference_result.link_gbit_per_s is
'Bandwidth of the links, Gbit/s; null if it is not stated';
comment on column staging.reference_result.variant_text is
'Further property of the cell, in the document''s words';
comment on column staging.reference_result.implementation is
'Name of the program, if the document has several; null if the variant is an axis';
comment on column staging.reference_result.unit is
'Unit of work, by Nightbench''s name; null if it is doubtful';
comment on column staging.reference_result.unit_text is
'Unit of the value, as written in the document';
comment on column staging.reference_result.value is
'Value in `unit_text`; null if the original cell is empty';
comment on column staging.reference_result.remark is 'Remark about the cell; null without one';
