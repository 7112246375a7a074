-- Controls of tensor cores by precision, and of the links between the GPUs of a node.
alter table raw.control drop constraint control_metric_check;
alter table raw.control add constraint control_metric_check check (
    metric in (
        'matrix_product', 'matrix_product_tf32', 'matrix_product_bf16', 'matrix_product_fp16',
        'memory_copy', 'all_reduce', 'all_reduce_in_node'
    )
) not valid;
comment on column raw.control.metric is
'matrix_product (float32) or matrix_product_tf32, _bf16, _fp16 (tensor cores), memory_copy, '
'all_reduce (between nodes, TCP) or all_reduce_in_node (NCCL)';
