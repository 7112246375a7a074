"""Numbers without a meaning: the test line has no NumPy, so neither has this workload."""


def batch(params, batch_size, random):
    """As many numbers as samples."""
    return {"x": [random.uniform(0, 1) for _ in range(batch_size)]}


def weights(params, random):
    """Name -> initial values."""
    return {"w": [random.uniform(-1, 1) for _ in range(1000)]}
