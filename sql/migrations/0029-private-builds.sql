-- A build that was named for one run alone is no part of the history of its series.
alter table raw.planned_case add column private_build boolean not null default false;
comment on column raw.planned_case.private_build is
'The build was named for this run and is not the suite''s own: no baseline, no latest median';
