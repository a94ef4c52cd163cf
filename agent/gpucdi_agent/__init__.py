"""The node side of gpucdi."""
