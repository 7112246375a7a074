-- A suite's night on one cluster has nothing to do with that on another: each has its message, as
-- each has its lock.
alter table raw.message add column cluster text check (cluster <> '');
update raw.message as m set cluster = r.cluster
from raw.run as r
where m.run_id = r.run_id;
alter table raw.message alter column cluster set not null;
comment on column raw.message.cluster is 'Of the run that was judged when it was sent';

drop index raw.message_one_for_each_night;
create unique index message_one_for_each_night on raw.message (suite, cluster, night, channel)
where kind = 'night';
comment on table raw.message is
'What was sent: at most one message of a suite''s night on a cluster for each channel';
