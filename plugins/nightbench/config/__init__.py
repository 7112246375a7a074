"""YAML and JSON that people write, as data of the model, and every complaint about it."""

from nightbench.config.builds import parse_build
from nightbench.config.catalog import load_catalog
from nightbench.config.clusters import find_clusters, load_cluster
from nightbench.config.source import ConfigError, Problem
from nightbench.config.suites import customise, find_suites, load_suite

__all__ = [
    "ConfigError",
    "Problem",
    "customise",
    "find_clusters",
    "find_suites",
    "load_catalog",
    "load_cluster",
    "load_suite",
    "parse_build",
]
