-- Memory of devices, beside that of processes: a suite may be judged by it.
alter table raw.repeat add column peak_allocator_bytes bigint;
alter table raw.repeat
add constraint repeat_peak_allocator_bytes_check check (peak_allocator_bytes > 0) not valid;
comment on column raw.repeat.peak_allocator_bytes is
'Most device memory that the allocator of any rank held, bytes; null where none counts it';
alter table raw.measurement add column peak_allocator_bytes bigint;
alter table raw.measurement
add constraint measurement_peak_allocator_bytes_check check (peak_allocator_bytes > 0) not valid;
comment on column raw.measurement.peak_allocator_bytes is
'Most device memory that the allocator of any rank held, bytes; null where none counts it';

alter table raw.verdict drop constraint verdict_metric_check;
alter table raw.verdict add constraint verdict_metric_check check (
    metric in (
        'throughput', 'tokens_per_s_per_device', 'tflops_per_device', 'mfu', 'joules_per_unit',
        'peak_resident_bytes', 'peak_allocator_bytes'
    )
) not valid;
