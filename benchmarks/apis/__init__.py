"""Shared parts of framework lines with the same API, by the name of the API (`framework.json`)."""
