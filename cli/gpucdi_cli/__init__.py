"""gpucdi for people."""
