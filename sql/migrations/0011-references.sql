-- The public benchmarks' cells: the original words as text. staging.reference_result maps them.
create table raw.reference_result (
    reference_id text primary key check (reference_id <> ''),
    source text not null,
    figure text not null,
    workload text not null,
    dataset text not null,
    framework text not null,
    framework_version text not null,
    mode text not null,
    nodes text not null,
    devices_per_node text not null,
    device text not null,
    trainers text not null,
    pservers text not null,
    batch_size_per_device text not null,
    precision text not null,
    compiler text not null,
    variant text not null,
    metric text not null,
    unit text not null,
    value double precision check (value > 0 and value < 'infinity'),
    remark text not null
);
comment on table raw.reference_result is
'Published values (value) and the cells that the public benchmarks leave empty (value null)';
comment on column raw.reference_result.reference_id is 'Digest of the cell''s original description';
comment on column raw.reference_result.value is
'Value in `unit`; null if the original cell is empty';
comment on column raw.reference_result.source is 'Document that the cell is in';
comment on column raw.reference_result.figure is 'Table or diagram in the document';
comment on column raw.reference_result.workload is 'Workload, as written in the document';
comment on column raw.reference_result.dataset is 'Data set; empty if it is not stated';
comment on column raw.reference_result.framework is 'Framework, as written in the document';
comment on column raw.reference_result.framework_version is 'Version; empty if it is not stated';
comment on column raw.reference_result.mode is 'single, collective or parameter_server';
comment on column raw.reference_result.nodes is 'Nodes; empty if they are not stated';
comment on column raw.reference_result.devices_per_node is
'Devices of each node; empty if they are not stated';
comment on column raw.reference_result.device is 'Device; empty if it is not stated';
comment on column raw.reference_result.trainers is 'Trainers; empty if they are not stated';
comment on column raw.reference_result.pservers is
'Parameter servers; empty if they are not stated';
comment on column raw.reference_result.batch_size_per_device is
'Batch size, as written in the document';
comment on column raw.reference_result.precision is 'Precision, as written in the document';
comment on column raw.reference_result.compiler is 'Compiler; empty without a compiler';
comment on column raw.reference_result.variant is 'Further property of the cell';
comment on column raw.reference_result.metric is 'Measured quantity';
comment on column raw.reference_result.unit is 'Unit of the value, as written in the document';
comment on column raw.reference_result.remark is 'Remark about the cell';
