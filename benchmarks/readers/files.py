"""The files of a data set, and the part of them that a rank reads."""

import os


class DataError(Exception):
    """A data set has an error; the message names the file and, if known, the line."""


class Part:
    """One rank's part of a data set.

    Args:
        path: file or folder on this node.
        rank: number of the reading rank among all training ranks.
        ranks: number of these ranks.
        seed: seed of the workload, for random numbers that are the same on all ranks.
    """

    decoder = None
    """Decoder of images that replaces the reader's: see `dali.Decoder`."""

    def __init__(self, path, rank, ranks, seed):
        self.path = os.path.expanduser(path)
        self.rank, self.ranks, self.seed = rank, ranks, seed
        if not os.path.exists(self.path):
            raise DataError("{}: no such file or folder on this node".format(self.path))

    def text_files(self):
        """Return the file itself, or the visible files of the folder, sorted by name."""
        if not os.path.isdir(self.path):
            return [self.path]
        names = sorted(name for name in os.listdir(self.path) if not name.startswith("."))
        return [
            path
            for path in (os.path.join(self.path, name) for name in names)
            if os.path.isfile(path)
        ]

    def lines(self, files):
        """Yield (path, offset, line without its end) of this rank's lines, repeated without end.

        Ranks get equal parts of the bytes of all concatenated files: a line belongs to the rank in
        whose part it begins. So no rank reads the part of another, and no index is needed.

        Raises:
            DataError: no line begins in this rank's part.
        """
        sizes = [os.path.getsize(path) for path in files]
        begin, end = (sum(sizes) * part // self.ranks for part in (self.rank, self.rank + 1))
        while True:
            found, start = False, 0
            for path, size in zip(files, sizes):
                for offset, line in _lines(path, begin - start, min(end - start, size)):
                    found = True
                    yield path, offset, line
                start += size
            if not found:
                raise DataError(
                    "{}: found no line for rank {}; expected at least one for each of {} "
                    "ranks".format(self.path, self.rank, self.ranks)
                )


def _lines(path, begin, end):
    """Yield (offset, line) of a file's lines that begin at `begin` or later, but before `end`."""
    offset = max(0, begin)
    if offset >= end:
        return
    with open(path, "rb") as stream:
        if offset:
            stream.seek(offset - 1)
            offset += len(stream.readline()) - 1
        while offset < end:
            line = stream.readline()
            if not line:
                return
            yield offset, line.rstrip(b"\r\n")
            offset += len(line)


def place(path, offset):
    """Return `FILE, line N`; lines are counted only when a message needs the number."""
    with open(path, "rb") as stream:
        return "{}, line {}".format(path, 1 + stream.read(offset).count(b"\n"))
