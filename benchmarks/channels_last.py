"""NumPy arrays between data.py's layouts and those of frameworks that hold channels last.

data.py has images (n, c, h, w) and convolutions (out, in, h, w); with channels last these are
(n, h, w, c) and (h, w, in, out). Arrays of other than four dimensions stay as they are.
"""


def batch(named):
    """A batch, name -> array, whose images have channels last."""
    return {name: x.transpose(0, 2, 3, 1) if x.ndim == 4 else x for name, x in named.items()}


def weight(value):
    """A weight of data.py, with channels last."""
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value


def weight_of_data(value):
    """The inverse of `weight`."""
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value


def shape_of_data(shape):
    """The shape after `weight_of_data`."""
    shape = tuple(shape)
    return (shape[3], shape[2], shape[0], shape[1]) if len(shape) == 4 else shape
