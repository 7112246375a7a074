-- What a night had no room for is planned all the same: listed with its reason, and not missing.
alter table raw.planned_case add column left_out text check (left_out <> '');
comment on column raw.planned_case.left_out is
'Why the night had no room for the case; null where it was to be measured';
