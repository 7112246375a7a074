-- Over how many devices a copy of a training is split, and what of it.
alter table raw."case"
add column shard integer not null default 1 check (shard >= 1),
add column shard_stage integer check (shard_stage between 1 and 3);
comment on column raw."case".shard is
'Devices that share a copy of what shard_stage splits; 1: every device holds all';
comment on column raw."case".shard_stage is
'What is split: 1 optimiser states, 2 gradients as well, 3 parameters as well; null: nothing';
update raw."case" set axes = axes || '{"shard": 1, "shard_stage": null}';
