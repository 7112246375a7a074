-- What a median means in tokens and model FLOPs, and against the peak of its devices.
alter table raw.measurement
add column tokens_per_s double precision check (tokens_per_s > 0 and tokens_per_s < 'infinity'),
add column model_flops_per_s double precision
check (model_flops_per_s > 0 and model_flops_per_s < 'infinity'),
add column device text check (device <> ''),
add column peak_flops double precision check (peak_flops > 0 and peak_flops < 'infinity'),
add column mfu double precision check (mfu > 0 and mfu < 'infinity'),
add column mfu_absent text check (mfu_absent <> '');
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
