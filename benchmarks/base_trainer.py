"""Base of a framework's trainer: batches, initial weights and their checks.

`frameworks/<line>/trainer.py` has a class `Trainer(Base)`, which trains the network of a model
file: optimizer, precision, distribution. Random numbers come only from here and from NumPy's
RandomState, whose streams never change: all lines have the same weights, each rank its batches.
"""

import hashlib
import itertools
import time

import numpy
from heap import keep_what_is_freed
from movement import movement, step_limit
from readers.files import Part
from readers.prefetch import Prefetched

ALONE_LIMIT_S = 5.0
"""Time in which a trainer's gradients must change the weights that it pulls, if it steps alone."""

ALONE_STEPS = 30
"""Minimum number of steps for this, however long they take. Some clients send the gradients of a
dozen steps at once, and a busy machine needs seconds to read the weights once."""

SETTLE_S = 0.05
"""Time between two readings of weights that no trainer changes any more."""


class DoesNotFit(Exception):
    """A network does not have the weights or parameter count of its workload."""


class Base:
    """One rank's training.

    Args:
        context: see `rank.Context`.
        network: the model file as a module, `model(params)` and `loss(model, batch)`.
        data: `data.py` of the workload as a module, `batch(params, batch_size, random)`,
            `weights(params, random)` and, if the workload reads real data,
            `read(params, batch_size, part, random)`.
    """

    samples_per_step = None
    """Units of work (the workload's `unit`) in one step of this rank. If ranks compute the same
    samples, it is this rank's part of them."""

    parameters = None
    """Number of trainable parameters; set by `initial_weights`."""

    sent_bytes_per_step = None
    """Bytes that this rank sends in a step, if the trainer counts them (`count_step`)."""

    flops_per_step = None
    """FLOPs of matrix products and convolutions in a step, forward and backward, without
    recomputation, if the trainer counts them (`count_step`). Ranks that compute the same samples,
    or each other's experts, state their mean."""

    data_waits_s = None
    """Seconds that each step so far has waited for its batch, if real data are read."""

    def __init__(self, context, network, data):
        keep_what_is_freed()
        self.context = context
        self.network = network
        self.samples_per_step = context.batch_size * context.params.get("units_per_example", 1)
        self._data = data
        self._random = self._new_random()
        self._example = self._fed = self.window_batch = None
        self.decoder = None  # Set for real images if their reader does not decode them.
        self._weights_before = {}
        self._updates_before = None
        self._trained = set()
        self.kept = []

    def step(self):
        """Run forward, backward and update without waiting; the loss stays on the device."""
        raise NotImplementedError

    def losses(self):
        """Return the losses of all steps so far, which `step` appends to `kept`."""
        return [float(loss) for loss in self.kept]

    def weights(self):
        """Return name -> trained weights, with the names and layouts of the workload's data.py."""
        raise NotImplementedError

    def ranks_agree(self):
        """Return whether all ranks have the same weights after a step.

        With parameter servers, the trainers of most lines have weights of different ages.
        """
        return self.context.case["strategy"] != "parameter_server"

    def weights_digest(self):
        """Return the sha256 of names and values of the trained weights; equal if ranks agree.

        Return None if ranks have weights of different ages.
        """
        if not self.ranks_agree():
            return None
        digest = hashlib.sha256()
        for name, value in sorted(self.weights().items()):
            digest.update(name.encode())
            digest.update(numpy.ascontiguousarray(value, dtype="float32").tobytes())
        return digest.hexdigest()

    def keep_weights(self):
        """Copy the weights when the window opens, for `weights_moved` and `skipped_updates`."""
        self._updates_before = self.updates_made()
        if self._fed and self.context.case["strategy"] == "parameter_server":
            self.window_batch = self._fed.peek()
        self._weights_before = {
            name: numpy.array(value, dtype="float32") for name, value in self.weights().items()
        }
        unseen = self._trained.symmetric_difference(self._weights_before)
        if unseen:
            raise DoesNotFit(
                "weights() and the network's parameters differ by " + ", ".join(sorted(unseen))
            )

    def weights_moved(self, updates):
        """Return how far each tensor has moved since `keep_weights`, in `updates` steps.

        Name -> `norm` before; `moved`, the norm of the difference; `largest`, the largest change
        of an element; `limit`, an upper bound of `largest` (None if the optimizer has no bound).
        """
        limit = step_limit(self.context.params)
        if limit is None or self.context.case["strategy"] == "parameter_server":
            # Servers apply the updates of all trainers as they arrive.
            limits = None, None
        else:
            limits = updates * limit[0], updates * limit[1]
        after = self.weights()
        return {
            name: movement(before, numpy.asarray(after[name], dtype="float32"), *limits)
            for name, before in self._weights_before.items()
        }

    def step_again(self):
        """Run a step on the very first batch and return True; False if that batch was not kept.

        At scales that converge, the batch's first and last loss show whether this rank converged.
        """
        if self._fed is None or self._fed.first is None:
            return False
        self._fed.again = True
        self.step()
        return True

    def count_step(self):
        """Set `flops_per_step` and `sent_bytes_per_step`, after everything else is recorded.

        It counts one more call of `step`, so that the counted step is like the measured ones.
        """

    def updates_made(self):
        """Return the number of updates so far; None if each step makes an update.

        Trainers that scale the loss skip the update after an overflow, and return a number.
        """
        return None

    def skipped_updates(self, steps):
        """Return how many of `steps` since `keep_weights` made no update; None if all make one."""
        made = self.updates_made()
        return None if made is None else steps - (made - self._updates_before)

    def expert_tokens(self):
        """Return the tokens of this rank's next batch for each expert of each layer.

        Return None if the model file has no `tokens_per_expert`: the network has no experts.
        """
        count = getattr(self.network, "tokens_per_expert", None)
        return count and [[int(number) for number in layer] for layer in self._forward(count)]

    def _forward(self, function):
        """Return `function(network, batch)` for this rank's next batch."""
        raise NotImplementedError

    def gradients_arrive(self):
        """Return whether this trainer's gradients change the weights it pulls; None: not checked.

        Asynchronous trainers take turns: one steps and the others wait, so that only its gradients
        can change the weights. `weights_moved` proves this for a single trainer. Except with
        `async`, a trainer cannot step alone, or has its own copy of the weights.
        """
        context = self.context
        case = context.case
        if case["strategy"] != "parameter_server" or case["sync"] != "async":
            return None
        if context.world_size == 1:
            return None
        arrived = False
        for rank in range(context.world_size):
            context.runtime.barrier()
            if rank == context.rank:
                arrived = self._moves_alone()
            # The turns of other ranks may take minutes.
            context.tell_progress()
        context.runtime.barrier()
        return arrived

    def _moves_alone(self):
        # Its weights may be older than the last gradients of others: a step fetches new weights.
        self.step()
        before = self._settled(time.monotonic() + ALONE_LIMIT_S)
        limit_s, steps = time.monotonic() + ALONE_LIMIT_S, 0
        while steps < ALONE_STEPS or time.monotonic() < limit_s:
            self.step()
            steps += 1
            if _differ(before, self.weights()):
                return True
        return False

    def _settled(self, limit_s):
        """Return the weights once they stop changing: all gradients of other ranks are applied."""
        found = self._copied()
        while time.monotonic() < limit_s:
            time.sleep(SETTLE_S)
            before, found = found, self._copied()
            if not _differ(before, found):
                break
        return found

    def _copied(self):
        return {name: numpy.array(value) for name, value in self.weights().items()}

    def precision_proof(self):
        """Return the precision found in the network; raise an error if it is not the case's."""
        return self.context.precision

    def modes_used(self):
        """Return axis -> value that was really used, by the framework's own state.

        It is called after the window. An axis that nothing reports is left out.
        """
        return {}

    def serve(self):
        """Run a parameter server until it is ended."""
        raise RuntimeError("this line has no parameter server")

    def example(self):
        """Return a synthetic batch, name -> array, with the names, shapes and types of all."""
        if self._example is None:
            self._example = self._synthetic()
        return self._example

    def feed(self, place):
        """Return an endless iterator over this rank's batches, placed for `step`.

        Synthetic batches are made and placed before training and used in turn. Real batches are
        read ahead by a thread and placed when their step begins. Each rank has its own data, so
        equal weights prove that gradients were exchanged.

        Args:
            place: takes a batch, name -> array, and returns what `step` works with.
        """
        self._fed = Fed(self._placed(place), self.context.params.get("converges"))
        return self._fed

    def _placed(self, place):
        context = self.context
        if context.data_path is None:
            made = [self.example()]
            made += [self._synthetic() for _ in range(context.params["batches"] - 1)]
            return itertools.cycle([place(batch) for batch in made])
        part = Part(context.data_path, context.data_rank, context.data_ranks, context.seed)
        part.decoder = self.decoder
        size = context.batch_size * context.together
        prefetched = Prefetched(self._data.read(context.params, size, part, self._new_random()))
        self.data_waits_s = prefetched.waits_s
        return map(place, prefetched)

    def _new_random(self):
        return numpy.random.RandomState([self.context.seed, 1 + self.context.data_rank])

    def _synthetic(self):
        size = self.context.batch_size * self.context.together
        return self._data.batch(self.context.params, size, self._random)

    def initial_weights(self, shapes):
        """Return name -> initial float32 array, checked against the network's parameters.

        Args:
            shapes: name -> shape of every trainable parameter, in the layout of data.py.

        Raises:
            DoesNotFit: a name or shape differs between network and data.py, or the parameter count
                is not the workload's.
        """
        random = numpy.random.RandomState([self.context.seed, 0])
        made = self._data.weights(self.context.params, random)
        problems = []
        for name in sorted(set(made) | set(shapes)):
            if name not in made:
                problems.append("{}: found in the network; not found in data.py".format(name))
            elif name not in shapes:
                problems.append("{}: found in data.py; not found in the network".format(name))
            elif tuple(shapes[name]) != made[name].shape:
                problems.append(
                    "{}: found {} in the network; expected {} by data.py".format(
                        name, tuple(shapes[name]), made[name].shape
                    )
                )
        if problems:
            raise DoesNotFit("initial weights do not fit the network:\n" + "\n".join(problems))
        self._trained = set(shapes)
        self.parameters = sum(int(numpy.prod(shape)) for shape in shapes.values())
        expected = self.context.parameters
        if expected is not None and self.parameters != expected:
            raise DoesNotFit(
                "found {} trainable parameters; expected {} by spec.json".format(
                    self.parameters, expected
                )
            )
        return {name: value.astype("float32") for name, value in made.items()}


class Fed:
    """An iterator over batches that repeats the first batch once after `again` is set.

    Args:
        batches: batches as `step` takes them.
        keep_first: whether the first batch is kept for this.
    """

    def __init__(self, batches, keep_first):
        self._batches = iter(batches)
        self._keep_first = keep_first
        self._next = []
        self.first = None
        self.again = False

    def peek(self):
        """Return the next step's batch without consuming it."""
        if not self._next:
            self._next.append(next(self._batches))
        return self._next[0]

    def __iter__(self):
        return self

    def __next__(self):
        if self.again:
            self.again = False
            return self.first
        batch = self._next.pop() if self._next else next(self._batches)
        if self._keep_first and self.first is None:
            self.first = batch
        return batch


def _differ(before, after):
    return any(not numpy.array_equal(value, after[name]) for name, value in before.items())


def optimizer_of(params, known):
    """Return the line's maker of the workload's optimizer.

    Args:
        params: of the workload; `optimizer` is the name.
        known: name -> maker.

    Raises:
        DoesNotFit: the line does not have this optimizer.
    """
    name = params.get("optimizer")
    if name not in known:
        raise DoesNotFit(
            "found optimizer {!r} in spec.json; expected one of {}".format(name, ", ".join(known))
        )
    return known[name]


def expect_precision(wanted, observed):
    """Return `observed`, after checking that it is the precision of the case."""
    if observed != wanted:
        raise RuntimeError(
            "the case says {}, but a probe shows that the device computes in {}".format(
                wanted, observed
            )
        )
    return observed
