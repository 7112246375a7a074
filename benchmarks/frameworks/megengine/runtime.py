"""A MegEngine process on a node: alone, on the CPU or a GPU."""

import megengine
from base_runtime import Base


class Runtime(Base):
    """One rank."""

    line = "megengine"
    package = megengine
    mark = Base.idle_mark

    def init(self):
        """Chooses the CPU or the one GPU that the launcher has left visible."""
        self.device = "cpux" if self.context.device is None else "gpu0"
        megengine.set_default_device(self.device)

    def device_sync(self):
        """Waits until all that was queued has run: on the CPU, too, it runs behind Python."""
        megengine._full_sync()

    def peak_memory(self):
        """Also what MegEngine's allocator took at most of a GPU."""
        found = super().peak_memory()
        if self.context.device is not None:
            found["allocator_bytes"] = megengine.device.get_max_allocated_memory(self.device)
        return found
