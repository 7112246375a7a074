-- A change of a node's state, for its history.
insert into raw.node_state_change (cluster, node, state, since, reasons, by_whom)
values (%(cluster)s, %(node)s, %(state)s, %(since)s, %(reasons)s, %(by_whom)s);
