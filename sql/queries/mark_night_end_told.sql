-- A channel took the message that a night's results came after all.
update raw.night set end_told_at = %(now)s
where
    suite = %(suite)s
    and cluster = %(cluster)s
    and scheduled_at = %(scheduled_at)s
    and end_told_at is null;
