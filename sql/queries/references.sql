-- Published results of the public benchmarks.

-- name: store_reference*!
-- A cell of the public benchmarks; value null where it is empty.
-- Writes only where something differs.
insert into raw.reference_result as t (
    reference_id,
    source,
    figure,
    workload,
    dataset,
    framework,
    framework_version,
    mode,
    nodes,
    devices_per_node,
    device,
    trainers,
    pservers,
    batch_size_per_device,
    precision,
    compiler,
    variant,
    metric,
    unit,
    value,
    remark
)
values (
    :reference_id,
    :source,
    :figure,
    :workload,
    :dataset,
    :framework,
    :framework_version,
    :mode,
    :nodes,
    :devices_per_node,
    :device,
    :trainers,
    :pservers,
    :batch_size_per_device,
    :precision,
    :compiler,
    :variant,
    :metric,
    :unit,
    :value,
    :remark
)
on conflict (reference_id) do update set
    source = excluded.source,
    figure = excluded.figure,
    workload = excluded.workload,
    dataset = excluded.dataset,
    framework = excluded.framework,
    framework_version = excluded.framework_version,
    mode = excluded.mode,
    nodes = excluded.nodes,
    devices_per_node = excluded.devices_per_node,
    device = excluded.device,
    trainers = excluded.trainers,
    pservers = excluded.pservers,
    batch_size_per_device = excluded.batch_size_per_device,
    precision = excluded.precision,
    compiler = excluded.compiler,
    variant = excluded.variant,
    metric = excluded.metric,
    unit = excluded.unit,
    value = excluded.value,
    remark = excluded.remark
where t.* is distinct from excluded.*;
