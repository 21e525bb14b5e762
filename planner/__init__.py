"""Cloud-GPU cost and instance selection: sized, priced, explained."""

__version__ = "0.1.0"
