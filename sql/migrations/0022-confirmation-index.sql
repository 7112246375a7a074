-- An alert's confirmations are looked up by the alert, the latest of them last.
create index confirmation_by_alert on raw.confirmation (alert_id, confirmation_id);
