import pytest

from nightbench.core.documents import from_document, to_document
from nightbench.nodes import Control, controls_of
from nightbench.nodes.node_preflight import all_reduce


def test_controls_of_a_document(document):
    found = controls_of("n1", document)
    assert [control.key for control in found] == [
        ("n1", "matrix_product", "cpu", "python-3.11"),
        ("n1", "memory_copy", "gpu-0", "torch-2.13.0 cuda"),
    ]
    assert found[0].median == pytest.approx(0.0211)
    assert from_document(Control, to_document(found[0])) == found[0]
    assert controls_of("n1", None) == ()


def test_all_reduce_goes_at_the_pace_of_its_slowest_rank():
    answers = [
        {"seconds": [0.5, 0.1, 0.2], "bytes": 4_000_000},
        {"seconds": [0.4, 0.4, 0.2], "bytes": 4_000_000},
    ]
    control = all_reduce(["n2", "n1"], answers)
    assert control is not None
    assert control.node == "n1+n2"
    assert control.unit == "GB/s"
    assert control.values == pytest.approx((0.008, 0.01, 0.02))


def test_between_gpus_the_library_is_named():
    answers = [{"seconds": [0.5], "bytes": 10**9, "backend": "nccl-2.27.3"}] * 2
    control = all_reduce(["n1", "n2"], answers, "all_reduce_gpus", "gpus")
    assert control is not None
    assert control.key == ("n1+n2", "all_reduce_gpus", "gpus", "nccl-2.27.3")
    assert control.values == (2.0,)


def test_all_reduce_without_a_complete_round():
    assert all_reduce(["n1", "n2"], [{"seconds": [], "bytes": 1}] * 2) is None
