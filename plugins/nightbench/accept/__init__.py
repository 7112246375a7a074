"""The acceptance of a cluster: which configurations of the framework lines work there."""
