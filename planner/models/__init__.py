"""Architectures: from a published config to parameters, bytes, FLOPs and cache sizes. Pure: bytes in, values out."""
