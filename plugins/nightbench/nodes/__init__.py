"""Judges the state of nodes: findings of a preflight, quarantine, control measurements. Pure.

`gang.preflight` examines nodes, `findings` judges one node, `compare` all of them, `node_state`
counts the faults of a node. Nothing here knows SSH, files or a database.
"""

from nightbench.nodes.findings import findings
from nightbench.nodes.node_preflight import (
    Control,
    Finding,
    FindingLevel,
    JudgedNode,
    NodePreflight,
    compare,
    controls_of,
    worst,
)
from nightbench.nodes.quarantine import (
    NodeEvent,
    NodesOut,
    NodeState,
    left_out_because,
    node_state,
    nodes_out_from_json,
    nodes_out_to_json,
)
