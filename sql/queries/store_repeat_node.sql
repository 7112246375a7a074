-- One node of a repeat.
-- Writes only where something differs.
insert into raw.repeat_node as t (
    run_id,
    case_id,
    generation,
    repeat,
    node,
    fingerprint_id,
    clock_offset_s,
    clock_error_s
)
values (
    %(run_id)s,
    %(case_id)s,
    %(generation)s,
    %(repeat)s,
    %(node)s,
    %(fingerprint_id)s,
    %(clock_offset_s)s,
    %(clock_error_s)s
)
on conflict (run_id, case_id, generation, repeat, node) do update set
    fingerprint_id = excluded.fingerprint_id,
    clock_offset_s = excluded.clock_offset_s,
    clock_error_s = excluded.clock_error_s
where t.* is distinct from excluded.*;
