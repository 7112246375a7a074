"""A text corpus: `vocabulary.txt` and files `*.txt` with a blank line between documents."""

import os
import re
import unicodedata

import numpy

from readers.files import DataError, place

VOCABULARY = "vocabulary.txt"
UNKNOWN, BEGIN, SEPARATOR, MASK = "[UNK]", "[CLS]", "[SEP]", "[MASK]"
_WORD = re.compile(r"\w+|[^\w\s]")
_REMEMBERED = 500000
"""Maximum number of words whose pieces are cached."""
_EMPTY = 100000
"""Number of consecutive lines without a word at which a text is an error."""


class Corpus:
    """One rank's part of the text, as an endless stream of word pieces.

    Words are lower-case without accents, and split into the longest pieces of the vocabulary, as
    in BERT (Devlin et al. 2018, arXiv:1810.04805). A separator is between documents.

    Args:
        part: see `files.Part`; a folder.
        size: size of the workload's vocabulary.
    """

    def __init__(self, part, size):
        path = os.path.join(part.path, VOCABULARY)
        if not os.path.isfile(path):
            raise DataError("{}: no such file; expected a token on each line".format(path))
        self.ids = _vocabulary(path, size)
        files = [each for each in part.text_files() if each.endswith(".txt") and each != path]
        if not files:
            raise DataError("{}: found no text; expected files *.txt".format(part.path))
        self._pieces = {}
        self._tokens = self._stream(part.lines(files))

    def take(self, count):
        """Return the next tokens, as int64."""
        return numpy.fromiter(self._tokens, "int64", count)

    def _stream(self, lines):
        before, within, empty = ("", 0), False, 0
        for path, offset, line in lines:
            tokens = [each for word in _words(path, offset, line) for each in self._pieces_of(word)]
            follows = path == before[0] and offset > before[1]
            if within and not (tokens and follows):
                yield self.ids[SEPARATOR]
            yield from tokens
            before, within = (path, offset), bool(tokens)
            empty = 0 if tokens else empty + 1
            if empty == _EMPTY:
                raise DataError("{}: found {} lines without a word".format(path, empty))

    def _pieces_of(self, word):
        """Return the pieces of a word."""
        found = self._pieces.get(word)
        if found is None:
            found = self._split(word)
            if len(self._pieces) < _REMEMBERED:
                self._pieces[word] = found
        return found

    def _split(self, word):
        pieces, begin = [], 0
        while begin < len(word):
            prefix = "##" if begin else ""
            for end in range(len(word), begin, -1):
                piece = self.ids.get(prefix + word[begin:end])
                if piece is not None:
                    pieces.append(piece)
                    begin = end
                    break
            else:
                return [self.ids[UNKNOWN]]
        return pieces


def _words(path, offset, line):
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError("{}: found no UTF-8: {}".format(place(path, offset), error)) from None
    decomposed = unicodedata.normalize("NFD", text.lower())
    return _WORD.findall("".join(x for x in decomposed if unicodedata.category(x) != "Mn"))


def _vocabulary(path, size):
    """Return token -> id; the id is the number of the token's line, counted from 0."""
    try:
        with open(path, encoding="utf-8") as stream:
            ids = {line.rstrip("\r\n"): number for number, line in enumerate(stream)}
    except UnicodeDecodeError as error:
        raise DataError("{}: found no UTF-8: {}".format(path, error)) from None
    missing = [token for token in (UNKNOWN, BEGIN, SEPARATOR, MASK) if token not in ids]
    if missing:
        raise DataError("{}: found no {}; expected it as a token".format(path, missing[0]))
    last = max(ids.values())
    if last >= size:
        raise DataError(
            "{}, line {}: found more tokens than the {} of the workload's vocabulary".format(
                path, size + 1, size
            )
        )
    return ids
