"""One file per step of preprocessing; their order is that of `detector.settings.registries.STEPS`.

Called by the preprocessor, for a history in blocks and for the stream in layers: both do the same to a value.
"""
