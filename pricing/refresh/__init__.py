"""Asking sources for prices: a plan of units, workers that carry it out, readings staged on disk, one refresh at a time."""
