-- Something that speaks for or against a node; what a run says is stored once.
insert into raw.node_event (cluster, node, run_id, subject, at, kind, reasons, by_whom)
values (
    %(cluster)s,
    %(node)s,
    %(run_id)s,
    %(subject)s,
    %(at)s,
    %(kind)s,
    %(reasons)s,
    %(by_whom)s
)
on conflict do nothing;
