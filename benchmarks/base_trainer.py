"""What a framework's trainer inherits: batches, initial weights and their checks.

`frameworks/<line>/trainer.py` holds a class `Trainer(Base)`. It makes the network of a model file
train: optimiser, precision, distribution. Random numbers are drawn here and by NumPy's RandomState,
whose streams never change, so that every line has the same weights and each rank the same batches.
"""

import hashlib
import itertools

import numpy
from readers.files import Part
from readers.prefetch import Prefetched


class DoesNotFit(Exception):
    """A network does not have the weights or parameter count of its workload."""


class Base:
    """One rank's training.

    Args:
        context: see `rank.Context`.
        network: the model file as a module, `model(params)` and `loss(model, batch)`.
        data: `data.py` of the workload as a module, `batch(params, batch_size, random)`,
            `weights(params, random)` and, where the workload reads real data,
            `read(params, batch_size, part, random)`.
    """

    samples_per_step = None
    """Units of work (the workload's `unit`) in one step of this rank."""

    parameters = None
    """Number of trainable parameters; set by `initial_weights`."""

    sent_bytes_per_step = None
    """Bytes of gradients that this rank sends in a step, where a trainer exchanges them itself."""

    data_waits_s = None
    """Seconds that each step so far has waited for its batch, where real data are read."""

    def __init__(self, context, network, data):
        self.context = context
        self.network = network
        self.samples_per_step = context.batch_size * context.params.get("units_per_example", 1)
        self._data = data
        self._random = self._new_random()
        self._example = None

    def step(self):
        """Runs forward, backward and update without waiting; the loss stays on the device."""
        raise NotImplementedError

    def losses(self):
        """Returns the losses of all steps so far; called after the window."""
        raise NotImplementedError

    def weights(self):
        """Returns name -> trained weights, with the names and layouts of the workload's data.py."""
        raise NotImplementedError

    def ranks_agree(self):
        """Returns whether all ranks hold the same weights after a step.

        With parameter servers most lines' trainers hold weights of different ages.
        """
        return self.context.case["strategy"] != "parameter_server"

    def weights_digest(self):
        """The sha256 over names and values of the trained weights; equal where ranks agree.

        None where ranks hold weights of different ages.
        """
        if not self.ranks_agree():
            return None
        digest = hashlib.sha256()
        for name, value in sorted(self.weights().items()):
            digest.update(name.encode())
            digest.update(numpy.ascontiguousarray(value, dtype="float32").tobytes())
        return digest.hexdigest()

    def precision_proof(self):
        """Returns the precision found in the network; raises where the case asks for another."""
        return self.context.precision

    def serve(self):
        """Runs a parameter server until it is ended."""
        raise RuntimeError("this line has no parameter server")

    def example(self):
        """A synthetic batch: name -> array. Names, shapes and types are those of all batches."""
        if self._example is None:
            self._example = self._synthetic()
        return self._example

    def feed(self, place):
        """Iterates over this rank's batches without end, each where a step takes it.

        Synthetic batches are made and placed before, and used in turn; those of real data when
        their step begins, from what a thread has read ahead. Ranks have data of their own: equal
        weights then prove that gradients were exchanged.

        Args:
            place: takes a batch, name -> array, and returns what `step` works with.
        """
        context = self.context
        if context.data_path is None:
            made = [self.example()]
            made += [self._synthetic() for _ in range(context.params["batches"] - 1)]
            return itertools.cycle([place(batch) for batch in made])
        part = Part(context.data_path, context.rank, context.world_size, context.seed)
        read = self._data.read(context.params, context.batch_size, part, self._new_random())
        prefetched = Prefetched(read)
        self.data_waits_s = prefetched.waits_s
        return map(place, prefetched)

    def _new_random(self):
        return numpy.random.RandomState([self.context.seed, 1 + self.context.rank])

    def _synthetic(self):
        return self._data.batch(self.context.params, self.context.batch_size, self._random)

    def initial_weights(self, shapes):
        """Name -> float32 array to start from, held against the network's parameters.

        Args:
            shapes: name -> shape of every trainable parameter, in the layout of data.py.

        Raises:
            DoesNotFit: a name or a shape that only one side has, or a parameter count that is not
                the workload's.
        """
        random = numpy.random.RandomState([self.context.seed, 0])
        made = self._data.weights(self.context.params, random)
        problems = []
        for name in sorted(set(made) | set(shapes)):
            if name not in made:
                problems.append("{}: the network has it, data.py does not".format(name))
            elif name not in shapes:
                problems.append("{}: data.py has it, the network does not".format(name))
            elif tuple(shapes[name]) != made[name].shape:
                problems.append(
                    "{}: found {} in the network; expected {} by data.py".format(
                        name, tuple(shapes[name]), made[name].shape
                    )
                )
        if problems:
            raise DoesNotFit("initial weights do not fit the network:\n" + "\n".join(problems))
        self.parameters = sum(int(numpy.prod(shape)) for shape in shapes.values())
        expected = self.context.parameters
        if expected is not None and self.parameters != expected:
            raise DoesNotFit(
                "found {} trainable parameters; expected {} by spec.json".format(
                    self.parameters, expected
                )
            )
        return {name: value.astype("float32") for name, value in made.items()}


def optimizer_of(params, known):
    """The line's maker of the optimiser that a workload names.

    Args:
        params: of the workload; `optimizer` is the name.
        known: name -> maker.

    Raises:
        DoesNotFit: the line has no such optimiser.
    """
    name = params.get("optimizer")
    if name not in known:
        raise DoesNotFit(
            "found optimizer {!r} in spec.json; expected one of {}".format(name, ", ".join(known))
        )
    return known[name]


def expect_precision(wanted, observed):
    """Returns `observed`, after checking that it is the precision of the case."""
    if observed != wanted:
        raise RuntimeError(
            "the case says {}, but a probe shows that the device computes in {}".format(
                wanted, observed
            )
        )
    return observed
