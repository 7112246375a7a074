-- A repeat that others disturbed was measured and does not count: its reason says who or what.
alter table raw.repeat drop constraint repeat_status_check;
alter table raw.repeat add constraint repeat_status_check
check (status in ('ok', 'failed', 'aborted', 'disturbed'));
comment on column raw.repeat.status is
'ok; failed; aborted; disturbed: measured with others'' work in the window, never counted';

-- What a night left out is neither a failure nor missing.
alter table raw.measurement drop constraint measurement_status_check;
alter table raw.measurement add constraint measurement_status_check
check (status in ('ok', 'failed', 'cancelled', 'unavailable', 'left_out'));
