-- A channel took a message. Gives its number.
insert into raw.message (suite, cluster, night, kind, channel, run_id, title)
values (
    %(suite)s, %(cluster)s, %(night)s, %(kind)s, %(channel)s, %(run_id)s, %(title)s
)
returning message_id;
