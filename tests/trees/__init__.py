"""Host trees for tests of the domain: copies of the captured incident, and what NVML would say."""
