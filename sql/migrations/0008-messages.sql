-- The outbox: messages that channels took, and the items that each of them was about. An item that has
-- no row with an empty channel is still to be sent; what a channel took it is never sent again.
create table raw.message (
    message_id bigint generated always as identity primary key,
    suite text not null check (suite <> ''),
    cluster text not null check (cluster <> ''),
    night date not null,
    kind text not null check (kind in ('night', 'urgent', 'deadline')),
    channel text not null check (channel <> ''),
    run_id text references raw.run (run_id),
    title text not null
);
create unique index message_one_for_each_night on raw.message (suite, cluster, night, channel)
where kind = 'night';
comment on table raw.message is
'Messages that channels accepted; for each suite, cluster, night and channel at most one of kind '
'night';
comment on column raw.message.suite is 'Suite of the message; for a silent cluster, its suites';
comment on column raw.message.cluster is 'Cluster of the message';
comment on column raw.message.night is 'Day on which the night begins, by the suite''s own clock';
comment on column raw.message.channel is 'Place and kind of the channel; never its URL';
comment on column raw.message.run_id is
'Run that was judged when it was sent; null for a message about deadlines';
comment on column raw.message.message_id is 'Number of the message';
comment on column raw.message.kind is
'night: the one message of a night; urgent: sent at once; deadline: about missing nights';
comment on column raw.message.title is 'Title of the message';

create table raw.delivery (
    kind text not null
    check (kind in ('alert', 'alert_end', 'noise', 'drift', 'grade', 'night', 'night_end')),
    subject text not null check (subject <> ''),
    news text not null check (news <> ''),
    channel text not null,
    message_id bigint references raw.message (message_id),
    at timestamptz not null default clock_timestamp(),
    primary key (kind, subject, news, channel),
    check ((channel = '') = (message_id is null))
);
comment on table raw.delivery is
'Items that channels accepted. An item with a row whose channel is empty is settled: it is sent '
'no more';
comment on column raw.delivery.kind is
'alert (new or changed), alert_end (resolved), noise, drift, grade, night (missing) or '
'night_end (late results)';
comment on column raw.delivery.subject is
'Subject of the item: number of an alert, case_id of a series, measure of a grade, or SUITE '
'on CLUSTER of a night';
comment on column raw.delivery.news is
'Run that made the item new; for a night, its scheduled time';
comment on column raw.delivery.channel is
'Channel that accepted the item, as in raw.message; empty: the item is settled';
comment on column raw.delivery.message_id is 'The message; null if channel is empty';
comment on column raw.delivery.at is 'When';
