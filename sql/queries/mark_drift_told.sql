-- A channel took the message about a drift.
update raw.drift set told_at = now()
where
    case_id = %(case_id)s
    and cluster = %(cluster)s
    and run_id = %(run_id)s
    and told_at is null;
