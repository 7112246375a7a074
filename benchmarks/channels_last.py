"""Conversion of NumPy arrays between data.py's layouts and those of channels-last frameworks.

data.py has images (n, c, h, w) and convolutions (out, in, h, w); with channels last these are
(n, h, w, c) and (h, w, in, out). Arrays that do not have four dimensions stay as they are.
"""


def batch(named):
    """Return a batch, name -> array, with its images in channels last."""
    return {name: x.transpose(0, 2, 3, 1) if x.ndim == 4 else x for name, x in named.items()}


def weight(value):
    """Return a weight of data.py in channels last."""
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value


def weight_of_data(value):
    """Return a channels-last weight in data.py's layout; the inverse of `weight`."""
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value


def shape_of_data(shape):
    """Return the shape in data.py's layout of a channels-last weight."""
    shape = tuple(shape)
    return (shape[3], shape[2], shape[0], shape[1]) if len(shape) == 4 else shape
