-- Grain: one row per build of a framework line.
create or replace view staging.build as
select
    *,
    case when source = 'path' then 'prefix' else 'venv' end as environment
from raw.build;

comment on view staging.build is 'One row per build of a framework line';
comment on column staging.build.environment is
'venv (made from a lock or a wheel) or prefix (prepared by the site)';
