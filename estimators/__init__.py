"""The mathematics of detector: arrays in, arrays out; no clock, no file, no thread."""
