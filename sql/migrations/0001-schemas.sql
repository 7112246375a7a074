-- The three layers and who may do what in them. The roles nightbench_owner (runs this),
-- nightbench_loader and nightbench_reader exist before; a migration only grants.
create schema raw;
create schema staging;
create schema marts;

comment on schema raw is 'What came back, as it was stored: nothing is ever dropped here';
comment on schema staging is 'Views over raw: renamed, cast, one generation of each case';
comment on schema marts is 'Views for analysts and pages; the grain stands in the header of each';

grant usage on schema raw, staging, marts to nightbench_loader, nightbench_reader;

-- Tables and views that later migrations make are covered by these defaults.
alter default privileges in schema raw
grant select, insert, update on tables to nightbench_loader;
alter default privileges in schema raw grant select on tables to nightbench_reader;
alter default privileges in schema staging
grant select on tables to nightbench_loader, nightbench_reader;
alter default privileges in schema marts
grant select on tables to nightbench_loader, nightbench_reader;
