"""Weights of PaddlePaddle's parameter servers, for all framework lines of PaddlePaddle."""

import numpy


def rows_pulled(program, run, feed):
    """Return the rows of sparse tables that PaddlePaddle's servers send for a batch.

    Trainers do not store these tables: the variables of the tables keep their initial values.

    Args:
        program: a copy of the training program; operators that no lookup needs are removed.
        run: the `run` of an executor, called with program, feed and fetch_list.
        feed: the batch.

    Returns:
        Name of a table's variable -> rows, in the order of the batch's ids.
    """
    block = program.global_block()
    needed = set()
    for place in reversed(range(len(block.ops))):
        op = block.ops[place]
        if op.type == "distributed_lookup_table":
            needed.update(op.input("Ids"))
        elif needed.intersection(op.output_arg_names):
            needed.update(op.input_arg_names)
        else:
            block._remove_op(place)
    lookups = [op for op in block.ops if op.type == "distributed_lookup_table"]
    tables = [(op.input("W")[0], name) for op in lookups for name in op.output("Outputs")]
    if not tables:
        return {}
    found = {}
    for (table, _), value in zip(
        tables, run(program, feed=feed, fetch_list=[x for _, x in tables])
    ):
        found.setdefault(table, []).append(value.reshape(-1, value.shape[-1]))
    return {table: numpy.concatenate(rows) for table, rows in found.items()}
