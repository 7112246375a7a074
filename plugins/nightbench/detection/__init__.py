"""From the history of a series to a verdict: pure, knows no database."""

from nightbench.detection.baseline import BaselineDetector
from nightbench.detection.detector import Detector, Judgement, segment
from nightbench.detection.run import judge_cases, judge_run, point_of

__all__ = [
    "BaselineDetector",
    "Detector",
    "Judgement",
    "judge_cases",
    "judge_run",
    "point_of",
    "segment",
]
