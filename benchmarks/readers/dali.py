"""Images decoded by NVIDIA DALI: those that `image_folder` chooses, cut and mirrored alike."""

import collections
import multiprocessing.pool
import os

import numpy

from readers.files import DataError
from readers.image_folder import DEVIATION, MEAN, box_of, pillow, refusing


class Decoder:
    """Decodes in DALI's threads or, with a GPU, there.

    Args:
        gpu: whether the process's GPU decodes; the batches then stay in its memory.

    Raises:
        DataError: the environment has no DALI.
    """

    def __init__(self, gpu):
        try:
            from nvidia import dali
        except ImportError as error:
            raise DataError(
                "found no NVIDIA DALI in the environment of this line; expected DALI, for "
                "`tuning: dali`. Locks for CPUs have no DALI: name a prefix or an image with "
                "DALI, by environments.paths or environments.images of the cluster (pip install "
                "nvidia-dali-cuda120)"
            ) from error
        self._dali = dali
        self._gpu = gpu
        self.decoded = 0
        """Batches so far."""

    def batches(self, size, batch_size, chosen):
        """Batches without end: images (n, 3, size, size), normalised, and labels (n).

        Images are float32, as Pillow's but for rounding, and for what its filter does at the edge
        of an image: NumPy's arrays or, with a GPU, objects that speak DLPack.

        Args:
            size: height and width.
            batch_size: images in a batch.
            chosen: endless iterator over paths, the random values of each (n, 5), and labels (n).

        Raises:
            DataError: an image cannot be decoded.
        """
        ahead = collections.deque()
        cores = len(os.sched_getaffinity(0))
        with multiprocessing.pool.ThreadPool(cores) as pool:

            def read():
                paths, drawn, labels = next(chosen)
                ahead.append((paths, drawn, labels))
                return tuple(map(list, zip(*pool.starmap(_encoded, zip(paths, drawn)))))

            pipeline = self._pipeline(size, batch_size, cores, read)
            pipeline.build()
            while True:
                try:
                    (images,) = pipeline.run()
                except RuntimeError as error:
                    _raise_what_is_wrong(size, ahead[0], error)
                self.decoded += 1
                _, _, labels = ahead.popleft()
                images = images.as_tensor()
                yield {"images": images if self._gpu else numpy.asarray(images), "labels": labels}

    def _pipeline(self, size, batch_size, threads, read):
        """DALI's graph; `read` returns what a batch's images need, in four lists."""
        fn, types = self._dali.fn, self._dali.types
        pipeline = self._dali.Pipeline(batch_size, threads, device_id=0 if self._gpu else None)
        with pipeline:
            encoded, begin, end, mirror = fn.external_source(read, num_outputs=4)
            # As Pillow: turned by no EXIF, and colours of a JPEG's pixels from their neighbours'.
            images = fn.decoders.image(
                encoded,
                device="mixed" if self._gpu else "cpu",
                output_type=types.RGB,
                adjust_orientation=False,
                jpeg_fancy_upsampling=True,
            )
            images = fn.resize(
                images,
                size=[size, size],
                roi_start=begin,
                roi_end=end,
                interp_type=types.INTERP_LINEAR,
                antialias=True,
            )
            images = fn.crop_mirror_normalize(
                images,
                mirror=mirror,
                dtype=types.FLOAT,
                output_layout="CHW",
                mean=(255 * MEAN).tolist(),
                std=(255 * DEVIATION).tolist(),
            )
            pipeline.set_outputs(images)
        return pipeline


def _encoded(path, drawn):
    """A file's bytes; (top, left) and (bottom, right) of what is cut; 1 where it is mirrored."""
    from PIL import Image

    with refusing(path), Image.open(path) as image:
        # Of its head alone.
        left, upper, right, lower = box_of(image.width, image.height, drawn)
        image.fp.seek(0)
        encoded = numpy.frombuffer(image.fp.read(), "uint8")
    begin, end = numpy.array([[upper, left], [lower, right]], "float32")
    return encoded, begin, end, numpy.array(drawn[4] < 0.5, "int32")


def _raise_what_is_wrong(size, batch, error):
    """Raises what Pillow says of the images that DALI failed on, which names none."""
    paths, drawn, _ = batch
    decode = pillow(size)
    for path, numbers in zip(paths, drawn):
        decode(path, numbers)
    raise DataError(
        "DALI cannot read {} or one of the {} images after it, but Pillow reads all: {}".format(
            paths[0], len(paths) - 1, error
        )
    ) from error
