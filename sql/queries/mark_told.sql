-- The message about the alerts that a run opened, reopened or woke has been sent.
update raw.alert
set told_at = now()
where
    news_run_id = %(run_id)s
    and told_at is null;
