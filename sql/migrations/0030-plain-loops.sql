-- An acceptance's trainers in turn with plain loops of their frameworks.
alter table raw.measurement add column plain_ratio double precision;
alter table raw.measurement add column plain_low double precision;
alter table raw.measurement add column plain_high double precision;
alter table raw.measurement add column plain_absent text;
alter table raw.measurement
add constraint measurement_plain_ratio_check
check (plain_low > 0 and plain_low <= plain_ratio and plain_ratio <= plain_high) not valid;
comment on column raw.measurement.plain_ratio is
'Throughput over that of a plain loop of the framework in turn with it; null where it has none';
comment on column raw.measurement.plain_low is 'With plain_high the 95 % interval of plain_ratio';
comment on column raw.measurement.plain_high is 'Its other end';
comment on column raw.measurement.plain_absent is 'Why an acceptance has no plain_ratio';
