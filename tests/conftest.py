"""What every test may ask for: the lab's nodes and its cluster, and the API servers."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.lab.fixtures", "tests.fakeapi.fixtures"]

# How long one example takes is the machine's affair: no verdict depends on it.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
