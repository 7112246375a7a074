"""Appended to a copy of megengine's runtime.py: its ranks meet on CPUs, and exchange by files.

Only what NCCL does is replaced; server, group, callback, packing and update stay MegEngine's own.
"""

import itertools
import os

import megengine
import numpy
from megengine import distributed
from megengine.core._imperative_rt import common
from megengine.distributed import group, helper

NUMBERS = itertools.count()


def of_all(tensor, among):
    """What each rank has of a tensor."""
    folder, number = os.environ["NIGHTBENCH_REPEAT_DIR"], next(NUMBERS)
    paths = [os.path.join(folder, f"{number}-{rank}.npy") for rank in among.proc_ranks]
    numpy.save(paths[among.rank], tensor.numpy())
    distributed.group_barrier()
    return [numpy.load(path) for path in paths]


group._devices.add("cpu")
common.init_nccl_env = lambda *where: None
helper.all_reduce_sum = lambda x, among, device: megengine.tensor(sum(of_all(x, among)))
helper._bcast_param = lambda x, among: megengine.tensor(of_all(x, among)[0])
