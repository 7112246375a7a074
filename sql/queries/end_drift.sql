-- The drift of a series that stands is over, or gives way to a newer one.
update raw.drift set over_run_id = %(run_id)s, over_at = %(at)s
where case_id = %(case_id)s and cluster = %(cluster)s and over_at is null;
