"""Finds lasting changes in the history of a series. Pure: no database, no files."""

from nightbench.detection.case_verdicts import (
    judge_cases,
    modes_of_cases,
    nights_before,
    point_of,
)
from nightbench.detection.change_detector import ChangeDetector
from nightbench.detection.changes import NIGHTS_READ, Change
from nightbench.detection.detector import Detector, Judgement, segment
from nightbench.detection.incremental import IncrementalDetector, find_changes
from nightbench.detection.power import smallest_slowdown
