"""Control measurements that are too low, and products as shares of the peak. Pure."""

from collections.abc import Mapping

from nightbench.core.model import Cluster
from nightbench.night.cluster_preflight import ClusterHealth
from nightbench.nodes import Finding
from nightbench.nodes.device_peaks import peak_of
from nightbench.nodes.node_preflight import fail, warn

LEAST_SHARE = 0.5
"""Share of a device's dense peak; a product of large matrices below it gets a remark."""


def short_controls(health: ClusterHealth, least: Mapping[str, float]) -> list[Finding]:
    """Return controls below the cluster's `health.min_controls`, not measured, or disturbed."""
    found = []
    for metric, bound in least.items():
        of_metric = [each for each in health.controls if each.metric == metric]
        if not of_metric:
            advice = (
                "single nodes, and nodes without PyTorch for CUDA, have no such control measurement"
            )
            found.append(fail(metric, "not measured", f"{bound:g} or more", advice))
        for each in of_metric:
            where, said = f"{each.node} {each.device}", f"{each.median:.4g} {each.unit}"
            wanted = f"{bound:g} {each.unit} or more (health.min_controls)"
            if each not in health.valid_controls:
                advice = "other processes distort the value: run the test when the nodes are idle"
                found.append(warn(metric, f"{said}, on a busy node", wanted, advice, where))
            elif each.median < bound:
                advice = "compare the value with other nodes; check clocks, power limits and links"
                found.append(fail(metric, said, wanted, advice, where))
    return found


def peak_remarks(health: ClusterHealth, cluster: Cluster) -> list[str]:
    """Return each matrix product of an undisturbed GPU as a share of the GPU's dense peak.

    Only of nodes whose GPUs are of one model.
    """
    models = {
        node.seen.node: {gpu["name"] for gpu in (node.seen.document or {}).get("gpus", ())}
        for node in health.nodes
    }
    found = []
    for each in health.valid_controls:
        metric, _, precision = each.metric.partition("_product")
        names = models.get(each.node, set())
        if metric != "matrix" or not each.device.startswith("gpu") or len(names) != 1:
            continue
        peak = peak_of(next(iter(names)), precision.strip("_") or "fp32", cluster.peak_flops)
        if peak is None:
            continue
        share = each.median * 1e9 / peak
        low = f", less than {LEAST_SHARE:.0%}: check clocks, power limits and the library's version"
        found.append(
            f"{each.node} {each.device} {each.metric}: {each.median:.4g} {each.unit}, "
            f"{share:.0%} of the dense peak{low if share < LEAST_SHARE else ''}"
        )
    return found
