"""A process of PaddlePaddle 3 on a node."""

from apis.paddle.runtime import PaddleRuntime


class Runtime(PaddleRuntime):
    """One rank."""

    line = "paddle3"
