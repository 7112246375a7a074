-- What a median took of its devices in energy.
alter table raw.repeat
add column power_w double precision check (power_w > 0 and power_w < 'infinity');
comment on column raw.repeat.power_w is
'Mean power of all devices in the windows, W; null where it is not known, and before 0.2.0';
alter table raw.measurement
add column power_w double precision check (power_w > 0 and power_w < 'infinity'),
add column joules_per_unit double precision
check (joules_per_unit > 0 and joules_per_unit < 'infinity'),
add column energy_absent text check (energy_absent <> '');
comment on column raw.measurement.power_w is
'Mean power of all devices in the windows, W, median of the repeats: GPUs of a case that runs on '
'them, else CPU packages; nothing else of the nodes';
comment on column raw.measurement.joules_per_unit is
'Energy of the devices for a unit of work, J: power / throughput, median of the repeats';
comment on column raw.measurement.energy_absent is
'Why a median has no energy; null where it has one';
