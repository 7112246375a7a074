-- A case that a run means to measure.
-- Writes only where something differs.
insert into raw.planned_case as t (
    run_id,
    case_id,
    axes,
    build_id,
    unit,
    definition_digest,
    left_out
)
values (
    %(run_id)s,
    %(case_id)s,
    %(axes)s,
    %(build_id)s,
    %(unit)s,
    %(definition_digest)s,
    %(left_out)s
)
on conflict (run_id, case_id) do update set
    axes = excluded.axes,
    build_id = excluded.build_id,
    unit = excluded.unit,
    definition_digest = excluded.definition_digest,
    left_out = excluded.left_out
where
t.axes is distinct from excluded.axes
or t.build_id is distinct from excluded.build_id
or t.unit is distinct from excluded.unit
or t.definition_digest is distinct from excluded.definition_digest
or t.left_out is distinct from excluded.left_out;
