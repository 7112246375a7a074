-- In which type an optimiser keeps its states.
alter table raw."case"
add column state_precision text not null default 'fp32' check (state_precision <> '');
comment on column raw."case".state_precision is
'In which the states of the optimiser lie between steps: fp32 or bf16';
update raw."case" set axes = axes || '{"state_precision": "fp32"}';
