-- How devices split sequences.
alter table raw."case" add column context integer not null default 1 check (context >= 1);
comment on column raw."case".context is 'Devices that split each sequence; 1: every device has all';
update raw."case" set axes = axes || '{"context": 1}';
