"""A process of the line: workers learn from the scheduler where the servers are."""

import json
import os
import socket
import time

from base_runtime import Base


def connect(host, port):
    """A stream to a process that may still be starting."""
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=60).makefile("rw")
        except OSError:
            time.sleep(0.05)


class Runtime(Base):
    """One scheduler, server or worker."""

    line = "relay"

    def init(self):
        """A worker finds its server."""
        self.server = None
        if self.context.measured:
            with connect(*os.environ["RELAY_SCHEDULER"].split(":")) as scheduler:
                servers = json.loads(scheduler.readline())
            self.server = connect(*servers[self.context.rank % len(servers)])

    def exchange(self, value):
        """What the server makes of a value."""
        self.server.write(json.dumps(value) + "\n")
        self.server.flush()
        return json.loads(self.server.readline())

    def versions(self):
        """The line's own."""
        return dict(super().versions(), relay="1.0")

    def transport(self):
        """With what is done to the values on their way."""
        return "relay/" + self.context.case["compression"]

    def shutdown(self):
        """Leaves the server."""
        self.server.close()
