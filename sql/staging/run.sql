-- Grain: one row per run.
create or replace view staging.run as
select
    run_key,
    run_id,
    suite,
    cluster,
    run_kind,
    started_at,
    requested_by,
    dag_id,
    dag_run_id,
    code_digest,
    env,
    loaded_at,
    origin = 'import' as is_imported
from raw.run;

comment on view staging.run is 'One row per run';
comment on column staging.run.is_imported is 'Whether the run is one of imported older results';
