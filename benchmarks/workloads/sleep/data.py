"""Meaningless numbers: the test line has no NumPy, so this workload does not use it."""


def batch(params, batch_size, random):
    """Return one number for each sample."""
    return {"x": [random.uniform(0, 1) for _ in range(batch_size)]}


def weights(params, random):
    """Name -> initial values."""
    return {"w": [random.uniform(-1, 1) for _ in range(1000)]}
