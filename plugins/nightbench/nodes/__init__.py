"""The state of nodes, judged: what was found, what it means, who is left out. Pure.

`gang.preflight` looks, `findings` judges one node, `compare` all of them, `standing` keeps
count of a node's faults. Nothing here knows SSH, files or a database.
"""

from nightbench.nodes.controls import Control, controls_of
from nightbench.nodes.findings import findings
from nightbench.nodes.node_differences import compare
from nightbench.nodes.node_preflight import Finding, FindingLevel, JudgedNode, NodePreflight, worst
from nightbench.nodes.quarantine import (
    NodeEvent,
    NodesOut,
    NodeState,
    left_out,
    nodes_out_from_json,
    nodes_out_to_json,
    standing,
)

__all__ = [
    "Control",
    "Finding",
    "FindingLevel",
    "JudgedNode",
    "NodeEvent",
    "NodePreflight",
    "NodeState",
    "NodesOut",
    "compare",
    "controls_of",
    "findings",
    "left_out",
    "nodes_out_from_json",
    "nodes_out_to_json",
    "standing",
    "worst",
]
