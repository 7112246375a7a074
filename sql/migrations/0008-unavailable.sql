-- A framework that cannot be had on a node is no failure: the reason says what to install.
alter table raw.measurement drop constraint measurement_status_check;
alter table raw.measurement add constraint measurement_status_check
check (status in ('ok', 'failed', 'cancelled', 'unavailable'));
