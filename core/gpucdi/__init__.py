"""The domain of gpucdi: what a GPU node's programs agree on, and where they do not.

Pure: nothing below this package imports kopf, kubernetes or pynvml, and files are opened only
under a :class:`gpucdi.host.HostTree` that the caller gives.
"""

__version__ = "0.1.0"
