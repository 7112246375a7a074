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
'Published figures (value) and the cells that the public benchmarks leave empty (value null)';
comment on column raw.reference_result.reference_id is 'Digest of the cell''s original description';
comment on column raw.reference_result.value is 'In `unit`; null where the original cell is empty';
