"""YAML and JSON that people write, as data of the model, and every complaint about it."""

from nightbench.config.builds import parse_build
from nightbench.config.catalog import load_catalog
from nightbench.config.clusters import load_cluster
from nightbench.config.locations import find_clusters, find_suites
from nightbench.config.source import ConfigError
from nightbench.config.suites import load_suite
