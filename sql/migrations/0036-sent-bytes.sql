-- What a compression sends is stored with each rank, repeat and measurement.
alter table raw.repeat_rank add column sent_bytes_per_step bigint check (sent_bytes_per_step >= 0);
alter table raw.repeat add column sent_bytes_per_step bigint check (sent_bytes_per_step >= 0);
alter table raw.measurement add column sent_bytes_per_step bigint check (sent_bytes_per_step >= 0);
comment on column raw.repeat_rank.sent_bytes_per_step is
'Bytes of gradients that it sent in a step; null where the framework exchanges them';
comment on column raw.repeat.sent_bytes_per_step is 'The largest rank''s';
comment on column raw.measurement.sent_bytes_per_step is 'The largest of its repeats';
