"""What every test may ask for: the lab's nodes and its cluster."""

pytest_plugins = ["tests.lab.fixtures"]
