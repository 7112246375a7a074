-- Switches that one line alone has.
alter table raw."case"
add column tuning text not null default 'default' check (tuning <> '');
comment on column raw."case".tuning is
'How switches of its own framework line are set, by a name that the line has; else default';
update raw."case" set axes = axes || '{"tuning": "default"}';
