"""Images in the layout of ImageNet: a folder for each class, with JPEG or PNG files."""

import contextlib
import multiprocessing.pool
import os

import numpy

from readers.files import DataError

SUFFIXES = (".jpeg", ".jpg", ".png")
MEAN = numpy.array([0.485, 0.456, 0.406], "float32")
DEVIATION = numpy.array([0.229, 0.224, 0.225], "float32")
"""Standard deviations of ImageNet's red, green and blue values, which are from 0 to 1."""


def batch(params, batch_size, random):
    """Return a synthetic batch: images (n, 3, size, size) of normal noise, and labels (n)."""
    shape = (batch_size, 3, params["image_size"], params["image_size"])
    return {
        "images": random.standard_normal(shape).astype("float32"),
        "labels": random.randint(0, params["classes"], batch_size).astype("int64"),
    }


def read(params, batch_size, part, random):
    """Return batches of a folder of images, in the form of `batch`."""
    return batches(params["image_size"], params["classes"], batch_size, part, random)


def batches(size, classes, batch_size, part, random):
    """Yield batches without end: images (n, 3, size, size), normalised, and labels (n).

    Every epoch has a new order, and every rank has other images of it. From each image, a crop of
    8 % to 100 % of its area is taken at random, scaled, and mirrored half of the time (Szegedy et
    al. 2014, arXiv:1409.4842). As many threads as the process has cores decode the images, unless
    the part has a decoder.

    Args:
        size: height and width.
        classes: of the network; the folder may have fewer.
        batch_size: images in a batch.
        part: see `files.Part`.
        random: the generator of the crops.
    """
    images = _images(part.path, classes)
    if len(images) < part.ranks:
        raise DataError(
            "{}: found {} images; expected at least one for each of {} ranks".format(
                part.path, len(images), part.ranks
            )
        )
    chosen = _chosen(images, _order(len(images), part), batch_size, random)
    if part.decoder is not None:
        yield from part.decoder.batches(size, batch_size, chosen)
        return
    decode = pillow(size)
    with multiprocessing.pool.ThreadPool(len(os.sched_getaffinity(0))) as pool:
        for paths, drawn, labels in chosen:
            made = pool.starmap(decode, zip(paths, drawn))
            yield {"images": numpy.stack(made), "labels": labels}


def _chosen(images, order, batch_size, random):
    """Yield batches without end: paths, five random numbers for each path (n, 5), labels (n)."""
    while True:
        chosen = [images[next(order)] for _ in range(batch_size)]
        drawn = random.random_sample((batch_size, 5))
        yield [path for path, _ in chosen], drawn, numpy.array([x for _, x in chosen], "int64")


def _images(folder, classes):
    """Return (path, label) of all images; labels number the class folders, sorted by name."""
    if not os.path.isdir(folder):
        raise DataError("{}: found a file; expected a folder for each class".format(folder))
    names = sorted(each for each in os.listdir(folder) if not each.startswith("."))
    names = [each for each in names if os.path.isdir(os.path.join(folder, each))]
    if len(names) > classes:
        raise DataError(
            "{}: found folders for {} classes; expected at most the {} of the workload".format(
                folder, len(names), classes
            )
        )
    images = []
    for label, name in enumerate(names):
        within = os.path.join(folder, name)
        files = sorted(each for each in os.listdir(within) if each.lower().endswith(SUFFIXES))
        images += [(os.path.join(within, each), label) for each in files]
    if not images:
        raise DataError(
            "{}: found no images in {} class folders; expected files {} in a folder for each "
            "class".format(folder, len(names), ", ".join("*" + suffix for suffix in SUFFIXES))
        )
    return images


def _order(count, part):
    """Yield the indices of this rank's images; all ranks shuffle alike and take turns."""
    random = numpy.random.RandomState([part.seed, 0])
    each = count // part.ranks
    while True:
        yield from random.permutation(count)[part.rank :: part.ranks][:each]


def pillow(size):
    """Return a function from a path and five numbers (0 to 1) to an image (3, size, size)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            "found no Pillow in the environment of this line; expected it, for images"
        ) from error

    def decode(path, drawn):
        with refusing(path), Image.open(path) as opened:
            image = opened.convert("RGB")
        box = box_of(image.width, image.height, drawn)
        image = image.resize((size, size), Image.BILINEAR, box=box)
        pixels = (numpy.asarray(image, "float32") / 255 - MEAN) / DEVIATION
        if drawn[4] < 0.5:
            pixels = pixels[:, ::-1]
        return numpy.ascontiguousarray(pixels.transpose(2, 0, 1))

    return decode


@contextlib.contextmanager
def refusing(path):
    """Raise an error that names the file if Pillow finds no image or an incomplete one."""
    try:
        yield
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError("{}: found no readable image: {}".format(path, error)) from error


def box_of(width, height, drawn):
    """Return the crop of an image: (left, upper, right, lower), in pixels.

    Args:
        width: of the image.
        height: of the image.
        drawn: numbers from 0 to 1 for area (8 % to 100 %), aspect ratio (3/4 to 4/3), position.
    """
    area = width * height * (0.08 + 0.92 * drawn[0])
    ratio = (3.0 / 4) ** (1 - 2 * drawn[1])
    wide = max(1.0, min(width, (area * ratio) ** 0.5))
    high = max(1.0, min(height, (area / ratio) ** 0.5))
    left, upper = (width - wide) * drawn[2], (height - high) * drawn[3]
    return left, upper, left + wide, upper + high
