"""Films of numbers."""


def batch(params, batch_size, random):
    """A list of films, each a list of frames."""
    return [[random.random() for _ in range(params["frames"])] for _ in range(batch_size)]


def weights(params, random):
    """None: the servers hold what they are sent."""
    return {}
