"""Stored reasons and evidence of another version, or edited by hand: each costs only itself."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from nightbench.core.documents import stored_document, to_document
from nightbench.core.model import Reason, ReasonCode, reasons_from_json
from nightbench.core.model.alerts import CauseEvidence
from nightbench.core.sentences import sentence, sentences

KNOWN = Reason(ReasonCode.NODE_ERROR, "n1", observed="no answer")


def test_a_code_of_a_newer_version_is_shown_and_kept() -> None:
    document = {"code": "disk_melted{}", "node": "n1", "observed": "900 °C", "rack": 7}
    (found,) = reasons_from_json([document])
    assert sentence(found) == "n1: disk_melted{}: 900 °C"
    assert found.to_json()["code"] == to_document(found)["code"] == "disk_melted{}"
    assert copy.deepcopy(found) == pickle.loads(pickle.dumps(found)) == found
    assert found in {Reason.from_json(document)}


@pytest.mark.parametrize(
    "damaged", [None, 7, "text", [], {}, {"code": 7}, {"code": "node_error", "node": {}}]
)
def test_what_is_no_reason_is_quoted_beside_the_others(damaged: Any) -> None:
    first, unreadable, last = reasons_from_json([KNOWN.to_json(), damaged, KNOWN.to_json()])
    assert first == last == KNOWN
    assert sentences([unreadable]) == f"a reason that cannot be read: {damaged!r}"


@pytest.mark.parametrize("damaged", [None, "text", {}, {"text": "hot", "rival": "newer"}])
def test_what_is_no_evidence_is_quoted(damaged: Any) -> None:
    assert CauseEvidence.from_json(damaged).text == f"evidence that cannot be read: {damaged!r}"


def test_a_stored_document_that_cannot_be_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert stored_document(CauseEvidence, {"text": "hot"}, "row 1") == CauseEvidence("hot")
    assert stored_document(CauseEvidence, {"text": 7}, "row 2") is None
    assert "row 2 cannot be read: text: Input should be a valid string" in caplog.text
