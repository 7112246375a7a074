-- What a median means in tokens and model FLOPs, and against the peak of its devices.
alter table raw.measurement
add column tokens_per_s double precision,
add column model_flops_per_s double precision,
add column device text,
add column peak_flops double precision,
add column mfu double precision,
add column mfu_absent text,
add constraint measurement_tokens_per_s_check
check (tokens_per_s > 0 and tokens_per_s < 'infinity') not valid,
add constraint measurement_model_flops_per_s_check
check (model_flops_per_s > 0 and model_flops_per_s < 'infinity') not valid,
add constraint measurement_device_check check (device <> '') not valid,
add constraint measurement_peak_flops_check
check (peak_flops > 0 and peak_flops < 'infinity') not valid,
add constraint measurement_mfu_check check (mfu > 0 and mfu < 'infinity') not valid,
add constraint measurement_mfu_absent_check check (mfu_absent <> '') not valid;
comment on column raw.measurement.tokens_per_s is
'Tokens per second of all devices; null for what is no language model, and before 0.2.0';
comment on column raw.measurement.model_flops_per_s is
'Floating point operations per second that the model''s mathematics need, forward and backward, of '
'all devices: nothing that is computed again; null where the workload states none';
comment on column raw.measurement.device is
'Model of the devices; null where unknown or where nodes differ';
comment on column raw.measurement.peak_flops is
'Dense peak of all devices together at the precision of the case, FLOP/s; null where unknown';
comment on column raw.measurement.mfu is
'Model FLOPs utilisation: model_flops_per_s / peak_flops';
comment on column raw.measurement.mfu_absent is 'Why a median has no mfu; null where it has one';
