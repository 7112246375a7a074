-- A run; `loaded_at` is set by mark_loaded alone.
-- Writes only where something differs.
insert into raw.run as t (
    run_id,
    suite,
    cluster,
    run_kind,
    started_at,
    requested_by,
    dag_id,
    dag_run_id,
    code_digest,
    origin
)
values (
    %(run_id)s,
    %(suite)s,
    %(cluster)s,
    %(run_kind)s,
    %(started_at)s,
    %(requested_by)s,
    %(dag_id)s,
    %(dag_run_id)s,
    %(code_digest)s,
    %(origin)s
)
on conflict (run_id) do update set
    suite = excluded.suite,
    cluster = excluded.cluster,
    run_kind = excluded.run_kind,
    started_at = excluded.started_at,
    requested_by = excluded.requested_by,
    dag_id = excluded.dag_id,
    dag_run_id = excluded.dag_run_id,
    code_digest = excluded.code_digest,
    origin = excluded.origin
where
t.suite is distinct from excluded.suite
or t.cluster is distinct from excluded.cluster
or t.run_kind is distinct from excluded.run_kind
or t.started_at is distinct from excluded.started_at
or t.requested_by is distinct from excluded.requested_by
or t.dag_id is distinct from excluded.dag_id
or t.dag_run_id is distinct from excluded.dag_run_id
or t.code_digest is distinct from excluded.code_digest
or t.origin is distinct from excluded.origin;
