"""Bytes to samples: formats (JSON, CSV, line protocol), mappings of fields, lines cut from a stream.

Sources call `decoder.Decoder`, which chooses the fastest reader that a configuration allows. Every message is
accepted, or counted under one of `connectors.base.REASONS`; nothing that comes from outside raises.
"""
