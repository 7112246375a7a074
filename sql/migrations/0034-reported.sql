-- What scripts of others print of themselves, beside the figures that are computed here.
alter table raw.repeat
add column reported jsonb,
add constraint repeat_reported_check check (jsonb_typeof(reported) = 'object') not valid;
comment on column raw.repeat.reported is
'What a script not of ours printed itself in the window: figures by name, as printed, median of '
'the ranks; null elsewhere';
alter table raw.measurement
add column reported jsonb,
add constraint measurement_reported_check check (jsonb_typeof(reported) = 'object') not valid;
comment on column raw.measurement.reported is
'What a script not of ours printed itself, such as tflops_per_device and mfu_percent by its own '
'formula: figures by name, as printed, median of the repeats; null elsewhere. Never judged';
