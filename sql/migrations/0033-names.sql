-- Names and notes of people: short, and without codes that turn the text beside them. Whoever calls
-- the functions of triage by SQL meets the same bounds as the pages and the command.
create function raw.is_plain(given text, longest integer) returns boolean
language sql immutable
set search_path = pg_catalog
return length(given) <= longest
and given !~ '[\u0001-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]';
comment on function raw.is_plain is
'No control characters, no codes for the direction of writing, and not too long';

alter table raw.run add constraint run_requested_by_plain check (raw.is_plain(requested_by, 200));
alter table raw.alert add constraint alert_owner_plain check (raw.is_plain(owner, 200));
alter table raw.alert_event add constraint alert_event_by_whom_plain
check (raw.is_plain(by_whom, 200));
alter table raw.alert_event add constraint alert_event_why_plain check (raw.is_plain(why, 4000));
alter table raw.node_event add constraint node_event_by_whom_plain
check (raw.is_plain(by_whom, 200));
