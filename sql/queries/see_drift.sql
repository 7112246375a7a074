-- The drift of a series goes on: its newest figures.
update raw.drift set
    change = %(change)s,
    error = %(error)s,
    nights = %(nights)s,
    since = %(since)s,
    seen_run_id = %(run_id)s,
    seen_at = %(at)s
where
    case_id = %(case_id)s
    and cluster = %(cluster)s
    and over_at is null
    and (change, error, nights, since, seen_run_id, seen_at) is distinct from (
        %(change)s::double precision,
        %(error)s::double precision,
        %(nights)s::integer,
        %(since)s::timestamptz,
        %(run_id)s::text,
        %(at)s::timestamptz
    );
