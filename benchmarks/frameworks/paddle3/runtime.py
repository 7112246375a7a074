"""A process of PaddlePaddle 3 on a node."""

import paddle
from apis.paddle.runtime import PaddleRuntime
from base_runtime import EventClock


class Runtime(EventClock, PaddleRuntime):
    """One rank."""

    line = "paddle3"
    new_event = paddle.device.Event
