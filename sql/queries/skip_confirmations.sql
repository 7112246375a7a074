-- What of a run was not measured to its end is given up, so that its message waits no longer.
update raw.confirmation
set
    state = 'skipped',
    sentence = %(why)s,
    ended_at = now()
where
    run_id = %(run_id)s
    and asked_by = 'nightbench'
    and state in ('wanted', 'running')
    and (%(every)s or until <= now())
    and confirmation_id <> all(%(apart_from)s::bigint[]);
