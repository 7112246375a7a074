-- One expectation held against one result.
-- Writes only where something differs.
insert into raw.check_result as t (
    run_id,
    case_id,
    generation,
    subject,
    repeat,
    check_name,
    ordinal,
    severity,
    success,
    observed,
    expected
)
values (
    %(run_id)s,
    %(case_id)s,
    %(generation)s,
    %(subject)s,
    %(repeat)s,
    %(check_name)s,
    %(ordinal)s,
    %(severity)s,
    %(success)s,
    %(observed)s,
    %(expected)s
)
on conflict (run_id, case_id, generation, subject, repeat, check_name, ordinal) do update set
    severity = excluded.severity,
    success = excluded.success,
    observed = excluded.observed,
    expected = excluded.expected
where t.* is distinct from excluded.*;
