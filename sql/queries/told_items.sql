-- What channels took of some alerts: a message is never repeated on the channel that had it.
select
    i.alert_id,
    i.what,
    i.of_run_id,
    m.channel
from raw.message_item as i
inner join raw.message as m on i.message_id = m.message_id
where i.alert_id = any(%(alert_ids)s);
