-- How devices split experts.
alter table raw."case" add column expert integer not null default 1 check (expert >= 1);
comment on column raw."case".expert is
'Devices that split the experts of each layer; 1: every device has all';
update raw."case" set axes = axes || '{"expert": 1}';
