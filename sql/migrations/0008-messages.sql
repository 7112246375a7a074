-- Messages about alerts: which were sent, through which channel, and about which alerts.
create table raw.message (
    message_id bigint generated always as identity primary key,
    suite text not null check (suite <> ''),
    cluster text not null check (cluster <> ''),
    night date not null,
    kind text not null check (kind in ('night', 'urgent')),
    channel text not null check (channel <> ''),
    run_id text not null references raw.run (run_id),
    title text not null,
    sent_at timestamptz not null default clock_timestamp()
);
create unique index message_one_for_each_night on raw.message (suite, cluster, night, channel)
where kind = 'night';
comment on table raw.message is
'What was sent: at most one message of a suite''s night on a cluster for each channel';
comment on column raw.message.suite is 'Whose alerts it was about';
comment on column raw.message.cluster is 'Of the run that was judged when it was sent';
comment on column raw.message.night is 'Day on which the night begins, by the suite''s own clock';
comment on column raw.message.channel is 'Place and kind of the channel; never its URL';
comment on column raw.message.run_id is 'Run that was judged when it was sent';
comment on column raw.message.message_id is 'Its number';
comment on column raw.message.kind is 'night: the one message of a night; urgent: sent at once';
comment on column raw.message.title is 'Its title';
comment on column raw.message.sent_at is 'When it was sent';

create table raw.message_item (
    message_id bigint not null references raw.message (message_id),
    alert_id bigint not null references raw.alert (alert_id),
    what text not null check (what in ('news', 'ended')),
    of_run_id text not null references raw.run (run_id),
    primary key (message_id, alert_id, what)
);
create index message_item_by_alert on raw.message_item (alert_id);
comment on table raw.message_item is 'The alerts that a message told of';
comment on column raw.message_item.of_run_id is
'Run that made it news: it opened, reopened or woke the alert, or ended it';
comment on column raw.message_item.message_id is 'The message';
comment on column raw.message_item.alert_id is 'The alert';
comment on column raw.message_item.what is 'news of it, or that it has ended';
