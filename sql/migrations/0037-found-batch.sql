-- A case may leave its batch to the run: `max`, the largest that fits.
alter table raw.planned_case drop column batch_size_per_device;
alter table raw.planned_case add column batch_size_per_device integer
generated always as (
    nullif(axes ->> 'batch_size_per_device', 'max')::integer
) stored check (batch_size_per_device >= 1);
comment on column raw.planned_case.batch_size_per_device is
'Samples in a step of one trainer; null: max, the largest that fits';

alter table raw.measurement add column found_batch_size integer check (found_batch_size >= 1);
comment on column raw.measurement.found_batch_size is
'What was found where the case says max; null otherwise';
