-- What many series of a night moved by together: a verdict of its own, and one alert in place of many.
create table raw.shared_movement (
    run_id text not null references raw.run (run_id),
    factor text not null check (factor in ('cluster', 'node', 'network', 'line', 'workload')),
    name text not null check (name <> ''),
    since date not null,
    change double precision not null check (change > -1 and change < 'infinity'),
    low double precision not null,
    high double precision not null,
    members jsonb not null check (jsonb_typeof(members) = 'object'),
    series integer not null check (series > 0),
    controls integer not null check (controls >= 0),
    controls_moved integer not null check (controls_moved between 0 and controls),
    sentence text not null check (sentence <> ''),
    alert_id bigint references raw.alert (alert_id),
    primary key (run_id, factor, name, since)
);
create index shared_movement_by_alert on raw.shared_movement (alert_id);
comment on table raw.shared_movement is
'What many series of a night moved by together: their build, node, cluster, network or workload';
comment on column raw.shared_movement.run_id is 'Run whose night was judged';
comment on column raw.shared_movement.factor is 'What the series have in common';
comment on column raw.shared_movement.name is 'Which one: the line, the node';
comment on column raw.shared_movement.since is 'Day of the first night at the new level';
comment on column raw.shared_movement.change is 'Relative change of the level that they share';
comment on column raw.shared_movement.low is 'With high the 90 % interval of change';
comment on column raw.shared_movement.high is 'Its other end';
comment on column raw.shared_movement.members is
'Case_id of each series that moved with it -> its own relative change';
comment on column raw.shared_movement.series is 'Series that have it in common and were judged';
comment on column raw.shared_movement.controls is 'Control measurements of the same nodes';
comment on column raw.shared_movement.controls_moved is 'How many of them moved with it';
comment on column raw.shared_movement.sentence is 'The verdict in words';
comment on column raw.shared_movement.alert_id is
'The one alert of it, at one of its members; null: a rise, or noisy series alone';
