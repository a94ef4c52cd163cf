"""The program for people: explains, shows and predicts. It never changes a node or a cluster."""
