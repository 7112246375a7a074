-- Grain: one row per configuration of a line that the newest acceptance of a cluster passed at
-- every tried shape, with build and driver. An untried configuration that is measured with these is
-- no longer marked.
create or replace view staging.tried_mode as
with newest as (
    select
        a.cluster,
        a.line,
        a.mode,
        a.build_id,
        coalesce(a.framework_version, '') as framework_version,
        coalesce(a.driver, '') as driver,
        a.outcome,
        bool_or(a.outcome = 'failed') over (
            partition by a.cluster, a.line, a.mode, a.build_id
        ) as has_failed
    from staging.acceptance as a
    where a.is_newest
)

select distinct
    n.cluster,
    n.line,
    n.mode,
    n.build_id,
    n.framework_version,
    n.driver
from newest as n
where n.outcome = 'passed' and not n.has_failed;

comment on view staging.tried_mode is
'One row per configuration of a line that passed the newest acceptance test of a cluster on '
'every tested number of nodes and devices';
comment on column staging.tried_mode.framework_version is 'Version; empty if unknown';
comment on column staging.tried_mode.driver is 'Driver; empty without GPUs';
