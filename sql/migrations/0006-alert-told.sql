-- An alert remembers that its message was sent: a try that no channel took is made again,
-- one that was taken is never repeated.
alter table raw.alert add column told_at timestamptz;
comment on column raw.alert.told_at is
'When a channel took its message, or when it was found to have no channel; null: still to be sent';
