-- NCCL's all-reduce between all GPUs of all nodes.
alter table raw.control drop constraint control_metric_check;
alter table raw.control add constraint control_metric_check check (
    metric in (
        'matrix_product', 'matrix_product_tf32', 'matrix_product_bf16', 'matrix_product_fp16',
        'memory_copy', 'all_reduce', 'all_reduce_in_node', 'all_reduce_gpus'
    )
) not valid;
comment on column raw.control.metric is
'matrix_product (float32) or matrix_product_tf32, _bf16, _fp16 (tensor cores), memory_copy, '
'all_reduce (between nodes, TCP), all_reduce_in_node (NCCL) or all_reduce_gpus (NCCL, all nodes)';
