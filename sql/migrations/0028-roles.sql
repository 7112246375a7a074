-- Roles of processes are what framework lines call them: scheduler, chief, server.

alter table raw.repeat_rank drop constraint repeat_rank_role_check;
alter table raw.repeat_rank add constraint repeat_rank_role_check check (role <> '');
