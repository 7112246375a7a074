"""Clicks as Criteo publishes them: label, 13 numbers and 26 categories, separated by tabs."""

import math

import numpy

from readers.files import DataError, place

NUMBERS, CATEGORIES = 13, 26


def batches(slots, vocabulary, batch_size, part):
    """Yield batches without end: dense (n, 13), slot0 to slot25 and label (n, 1).

    A number x becomes log(1 + x), or 0 if it is missing or negative. A category is a hexadecimal
    number. Its remainder is an id in the slot's part of the table. A missing category gets the
    first id of that part.

    Args:
        slots: categories that the network takes.
        vocabulary: rows of the table that the slots share.
        batch_size: lines in a batch.
        part: see `files.Part`; a file, or a folder with only such files.
    """
    if slots != CATEGORIES:
        raise DataError("found {} slots in spec.json; expected {}".format(slots, CATEGORIES))
    span = vocabulary // slots
    first = numpy.arange(slots, dtype="int64") * span
    lines = part.lines(part.text_files())
    while True:
        read = [_example(next(lines), span) for _ in range(batch_size)]
        labels, numbers, categories = zip(*read)
        numbers = numpy.maximum(numpy.array(numbers, "float32"), 0)
        batch = {"dense": numpy.log1p(numbers), "label": numpy.array(labels, "int64")[:, None]}
        ids = numpy.ascontiguousarray((numpy.array(categories, "int64") + first).T)
        batch.update(("slot{}".format(slot), ids[slot][:, None]) for slot in range(slots))
        yield batch


def _example(located, span):
    """Return label, numbers and categories of a line."""
    path, offset, line = located
    columns = line.split(b"\t")
    if len(columns) != 1 + NUMBERS + CATEGORIES:
        raise DataError(
            "{}: found {} columns; expected {}: a label, {} numbers and {} categories, separated "
            "by tabs".format(
                place(path, offset),
                len(columns),
                1 + NUMBERS + CATEGORIES,
                NUMBERS,
                CATEGORIES,
            )
        )
    try:
        label = (b"0", b"1").index(columns[0])
        numbers = [_number(each) for each in columns[1 : 1 + NUMBERS]]
        return label, numbers, [int(each or b"0", 16) % span for each in columns[1 + NUMBERS :]]
    except ValueError:
        raise DataError("{}: {}".format(place(path, offset), _wrong_column(columns))) from None


def _number(column):
    number = float(column or 0)
    if not math.isfinite(number):
        raise ValueError
    return number


def _wrong_column(columns):
    """Return a message that says which column of a line cannot be read."""
    if columns[0] not in (b"0", b"1"):
        return "column 1: found {!r}; expected 0 or 1".format(_text(columns[0]))
    for number, column in enumerate(columns[1:], start=2):
        is_number = number <= 1 + NUMBERS
        try:
            _number(column) if is_number else int(column or b"0", 16)
        except ValueError:
            kind = "a number" if is_number else "a hexadecimal number"
            found = _text(column)
            return "column {}: found {!r}; expected {}, or nothing".format(number, found, kind)
    raise AssertionError("every column can be read")


def _text(column):
    return column.decode("utf-8", "replace")
