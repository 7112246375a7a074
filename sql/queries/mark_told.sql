-- What was news of an alert has been told, or has no channel. News that came since stays untold.
update raw.alert
set told_at = clock_timestamp()
where
    alert_id = %(alert_id)s
    and news_run_id = %(of_run_id)s
    and told_at is null;
