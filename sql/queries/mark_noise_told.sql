-- A channel took the message about the series that a run made noisy or steady.
update raw.noise_event set told_at = now()
where run_id = %(run_id)s and told_at is null;
