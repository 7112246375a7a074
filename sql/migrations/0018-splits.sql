-- How devices split a training: matrices, layers, batches; and what is computed again.
alter table raw."case"
add column tensor integer not null default 1 check (tensor >= 1),
add column pipeline integer not null default 1 check (pipeline >= 1),
add column schedule text check (schedule <> ''),
add column micro_batches integer not null default 1 check (micro_batches >= 1),
add column recompute text not null default 'none' check (recompute <> '');
comment on column raw."case".tensor is 'Devices that split each matrix; 1: every device has all';
comment on column raw."case".pipeline is 'Devices that split the layers; 1: every device has all';
comment on column raw."case".schedule is
'Order in which the parts of a batch go through a pipeline, such as 1f1b; null: there is none';
comment on column raw."case".micro_batches is
'Parts of the batch of a step that are computed one after another';
comment on column raw."case".recompute is
'What of a layer is computed again for its backward: none, selective or full';
update raw."case" set
    axes
    = axes
    || '{"tensor": 1, "pipeline": 1, "schedule": null, "micro_batches": 1, "recompute": "none"}';
comment on column raw.measurement.sent_bytes_per_step is
'Bytes that a rank sent in a step, where its line counts them; the largest of its repeats';
comment on column raw.repeat_rank.sent_bytes_per_step is
'Bytes that it sent in a step, where its line counts them';
