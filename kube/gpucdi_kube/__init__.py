"""The Kubernetes API as the programs see it: a Protocol and its one adapter."""
