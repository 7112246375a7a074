-- Grain: one row per cluster that a run was planned on.
create or replace view marts.dim_cluster as
with used as (
    select
        cluster,
        count(*) as runs,
        min(started_at) as first_run_at,
        max(started_at) as last_run_at
    from staging.run
    group by cluster
)

select
    u.cluster,
    c.description,
    c.device_kind,
    c.devices_per_node,
    cardinality(c.nodes) as nodes,
    c.nodes as node_names,
    c.shared as is_shared,
    u.runs,
    u.first_run_at,
    u.last_run_at
from used as u
left join raw.cluster as c on u.cluster = c.cluster;

comment on view marts.dim_cluster is
'One row per cluster; the description is null if only imported results name it';
comment on column marts.dim_cluster.cluster is 'Name of the cluster';
comment on column marts.dim_cluster.nodes is 'Number of nodes of the cluster';
comment on column marts.dim_cluster.runs is 'Number of runs that were planned on the cluster';
comment on column marts.dim_cluster.first_run_at is 'Start of the first run on the cluster';
comment on column marts.dim_cluster.last_run_at is 'Start of the newest run on the cluster';
