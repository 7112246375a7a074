-- What a median took of its devices in energy.
alter table raw.repeat
add column power_w double precision,
add constraint repeat_power_w_check check (power_w > 0 and power_w < 'infinity') not valid;
comment on column raw.repeat.power_w is
'Mean power of all devices in the windows, W; null where it is not known, and before 0.2.0';
alter table raw.measurement
add column power_w double precision,
add column joules_per_unit double precision,
add column energy_absent text,
add constraint measurement_power_w_check check (power_w > 0 and power_w < 'infinity') not valid,
add constraint measurement_joules_per_unit_check
check (joules_per_unit > 0 and joules_per_unit < 'infinity') not valid,
add constraint measurement_energy_absent_check check (energy_absent <> '') not valid;
comment on column raw.measurement.power_w is
'Mean power of all devices in the windows, W, median of the repeats: GPUs of a case that runs on '
'them, else CPU packages; nothing else of the nodes';
comment on column raw.measurement.joules_per_unit is
'Energy of the devices for a unit of work, J: power / throughput, median of the repeats';
comment on column raw.measurement.energy_absent is
'Why a median has no energy; null where it has one';
