"""Batches that a thread makes while the device computes, as data loaders do."""

import queue
import threading
import time

AHEAD = 3
"""Maximum number of batches that are ready."""


class Prefetched:
    """Iterates over batches that a thread has made ahead.

    Args:
        batches: an endless iterator; its exceptions are raised when a batch is taken.
    """

    def __init__(self, batches):
        self.waits_s = []
        """Seconds for which each batch was waited for."""
        self._ready = queue.Queue(AHEAD)
        threading.Thread(target=self._fill, args=(batches,), daemon=True).start()

    def _fill(self, batches):
        try:
            for batch in batches:
                self._ready.put((batch, None))
        except Exception as error:
            # The rank raises it again, so that its traceback names the error.
            self._ready.put((None, error))

    def __iter__(self):
        return self

    def __next__(self):
        begin_s = time.perf_counter()
        batch, error = self._ready.get()
        self.waits_s.append(time.perf_counter() - begin_s)
        if error is not None:
            raise error
        return batch
