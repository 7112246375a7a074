"""Batches of a folder of images by Pillow and by DALI, in an environment that has both.

    python dali_batches.py CODE FOLDER SIZE KEPT

CODE is the folder of the benchmarks. KEPT gets the batches (NumPy's .npz: `pillow` and `dali`,
(n, 3, SIZE, SIZE), `labels` and `dali_labels`). Prints a line of JSON: `error`, what DALI's reader
says of a file; `threads`, how many there are before its first batch, and after the last.
"""

import gc
import itertools
import json
import os
import sys

CODE, FOLDER, SIZE, KEPT = sys.argv[1:]
sys.path.insert(0, CODE)

import numpy  # noqa: E402 - no import before the path
from readers import dali, image_folder  # noqa: E402
from readers.files import DataError, Part  # noqa: E402

BATCHES, BATCH_SIZE = 6, 7


def taken(decoder):
    """So many batches as one, and the reader closed; none is read before all are there."""
    part = Part(FOLDER, 0, 1, 1)
    part.decoder = decoder
    reader = image_folder.batches(int(SIZE), 10, BATCH_SIZE, part, numpy.random.RandomState(1))
    batches = list(itertools.islice(reader, BATCHES))
    reader.close()
    return [numpy.concatenate([x[name] for x in batches]) for name in ("images", "labels")]


def threads():
    """How many threads the process has, those that are not Python's too."""
    return len(os.listdir("/proc/self/task"))


before, found, error = threads(), [], None
try:
    found = taken(dali.Decoder(gpu=False))
except DataError as wrong:
    error = str(wrong)
gc.collect()  # An error of a pool's thread holds the frames that it went through.
print(json.dumps({"error": error, "threads": [before, threads()]}))
if found:
    images, labels = taken(None)
    numpy.savez(KEPT, pillow=images, labels=labels, dali=found[0], dali_labels=found[1])
