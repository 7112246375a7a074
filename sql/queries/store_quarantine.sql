-- A result that must not count, with its reasons.
-- Writes only where something differs.
insert into raw.quarantine as t (
    run_id,
    case_id,
    generation,
    subject,
    repeat,
    reasons
)
values (
    %(run_id)s,
    %(case_id)s,
    %(generation)s,
    %(subject)s,
    %(repeat)s,
    %(reasons)s
)
on conflict (run_id, case_id, generation, subject, repeat) do update set
    reasons = excluded.reasons
where t.* is distinct from excluded.*;
