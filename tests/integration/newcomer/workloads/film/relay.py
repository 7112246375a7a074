"""A network that forgets a film a little more each time."""

import time


def model(params):
    """How often it has seen a film."""
    return {"seen": 0}


def loss(model, batch):
    """Falls with every step, which takes 5 ms."""
    time.sleep(0.005)
    model["seen"] += 1
    return sum(map(sum, batch)) / model["seen"]
