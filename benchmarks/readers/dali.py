"""Images decoded by NVIDIA DALI; `image_folder` chooses them and their crops and mirroring."""

import collections
import multiprocessing.pool
import os

import numpy

from readers.files import DataError
from readers.image_folder import DEVIATION, MEAN, box_of, pillow, refusing


class Decoder:
    """Decodes images in DALI's CPU threads, or on a GPU.

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
                "found no NVIDIA DALI in the environment of this line; expected it, for `tuning: "
                "dali`. Locks for CPUs leave it out: name a prefix or an image that has it, by "
                "environments.paths or environments.images of the cluster (pip install "
                "nvidia-dali-cuda120)"
            ) from error
        self._dali = dali
        self._gpu = gpu
        self.decoded = 0
        """Number of batches so far."""

    def batches(self, size, batch_size, chosen):
        """Yield batches without end: images (n, 3, size, size), normalised, and labels (n).

        Images are float32: NumPy's arrays or, with a GPU, objects with DLPack's protocol. They
        equal Pillow's, except for rounding and for the filter at the edges of an image.

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
        """Return DALI's graph; `read` returns the graph's four inputs of a batch, as lists."""
        fn, types = self._dali.fn, self._dali.types
        pipeline = self._dali.Pipeline(batch_size, threads, device_id=0 if self._gpu else None)
        with pipeline:
            encoded, begin, end, mirror = fn.external_source(read, num_outputs=4)
            # As Pillow: no rotation by EXIF; colours of a JPEG are interpolated between pixels.
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
    """Return a file's bytes, the crop's (top, left) and (bottom, right), and 1 if mirrored."""
    from PIL import Image

    with refusing(path), Image.open(path) as image:
        # Only the head of the file.
        left, upper, right, lower = box_of(image.width, image.height, drawn)
        image.fp.seek(0)
        encoded = numpy.frombuffer(image.fp.read(), "uint8")
    begin, end = numpy.array([[upper, left], [lower, right]], "float32")
    return encoded, begin, end, numpy.array(drawn[4] < 0.5, "int32")


def _raise_what_is_wrong(size, batch, error):
    """Raise Pillow's error for the images that DALI failed on; DALI's error names no image."""
    paths, drawn, _ = batch
    decode = pillow(size)
    for path, numbers in zip(paths, drawn):
        decode(path, numbers)
    raise DataError(
        "DALI cannot read {} or one of the {} images after it, but Pillow reads all: {}".format(
            paths[0], len(paths) - 1, error
        )
    ) from error
