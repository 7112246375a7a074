-- An alert that a message told of.
insert into raw.message_item (message_id, alert_id, what, of_run_id)
values (%(message_id)s, %(alert_id)s, %(what)s, %(of_run_id)s);
