-- The first load of a run's results; a second one keeps the time of the first.
update raw.run
set loaded_at = now()
where
    run_id = %(run_id)s
    and loaded_at is null;
