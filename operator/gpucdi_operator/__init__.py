"""The cluster side of gpucdi."""
