"""A process of PaddlePaddle 3 on a node."""

import paddle
from apis.paddle.runtime import PaddleRuntime


class Runtime(PaddleRuntime):
    """One rank."""

    line = "paddle3"

    def mark(self):
        """Return a device event on GPUs, so that the host never waits for it in the window."""
        if not self.gpu:
            return super().mark()
        event = paddle.device.Event(enable_timing=True)
        event.record()
        return event

    def laps(self, marks):
        """Seconds between neighbouring marks."""
        if not self.gpu:
            return super().laps(marks)
        return [begin.elapsed_time(end) / 1e3 for begin, end in zip(marks, marks[1:])]
