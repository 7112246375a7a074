-- A cluster as its YAML describes it.
-- Writes only where something differs.
insert into raw.cluster as t (
    cluster,
    description,
    device_kind,
    devices_per_node,
    nodes,
    shared
)
values (
    %(cluster)s,
    %(description)s,
    %(device_kind)s,
    %(devices_per_node)s,
    %(nodes)s,
    %(shared)s
)
on conflict (cluster) do update set
    description = excluded.description,
    device_kind = excluded.device_kind,
    devices_per_node = excluded.devices_per_node,
    nodes = excluded.nodes,
    shared = excluded.shared
where t.* is distinct from excluded.*;
