-- Cases that failed with the same words on the same night are a group, also where nothing says why.
alter table raw.alert_cause drop constraint alert_cause_check;
