-- Grain: one row per mode of a line that the newest acceptance of a cluster passed, with build and
-- driver. What an untried mode measured with these is no longer marked.
create or replace view staging.tried_mode as
select
    a.cluster,
    a.line,
    a.mode,
    a.build_id,
    coalesce(a.framework_version, '') as framework_version,
    coalesce(a.driver, '') as driver
from staging.acceptance as a
where a.is_newest and a.outcome = 'passed';

comment on view staging.tried_mode is
'One row per mode of a line that the newest acceptance of a cluster passed';
comment on column staging.tried_mode.framework_version is 'Empty where unknown';
comment on column staging.tried_mode.driver is 'Empty without GPUs';
