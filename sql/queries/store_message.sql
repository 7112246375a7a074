-- A channel took a message. Gives its number.
insert into raw.message (suite, night, kind, channel, run_id, title)
values (%(suite)s, %(night)s, %(kind)s, %(channel)s, %(run_id)s, %(title)s)
returning message_id;
