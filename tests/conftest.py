"""What every test may ask for: the lab's nodes and its cluster, and the API servers."""

pytest_plugins = ["tests.lab.fixtures", "tests.fakeapi.fixtures"]
