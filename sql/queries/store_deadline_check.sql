-- Deadlines were checked.
insert into raw.deadline_check (checked_at, suites, missing)
values (%(now)s, %(suites)s, %(missing)s)
on conflict (only_one) do update set
    checked_at = excluded.checked_at,
    suites = excluded.suites,
    missing = excluded.missing;
