"""The paper's networks: an extractor of features and a linear head. They know nothing of tasks."""

from engram.networks.base import Network, build_network

__all__ = ["Network", "build_network"]
