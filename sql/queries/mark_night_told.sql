-- A channel took the message that a night is missing.
update raw.night set told_at = %(now)s
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and scheduled_at = %(scheduled_at)s
    and told_at is null;
