"""The parts of the agent: standard library only, Python 3.7 syntax."""
