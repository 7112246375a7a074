"""A MegEngine process on a node: alone, on the CPU."""

import time

import megengine
import numpy
from base_runtime import Base


class Runtime(Base):
    """One rank."""

    line = "megengine"

    def init(self):
        """Chooses the CPU."""
        megengine.set_default_device("cpux")

    def device_sync(self):
        """Waits until all that was queued has run: on the CPU too it runs behind Python."""
        megengine._full_sync()

    def mark(self):
        """A reading of the clock when nothing is queued: there are no events on the CPU."""
        self.device_sync()
        return time.perf_counter()

    def versions(self):
        """MegEngine's version and NumPy's."""
        versions = super().versions()
        versions["megengine"] = megengine.__version__
        versions["numpy"] = numpy.__version__
        return versions
