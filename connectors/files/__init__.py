"""Files: samples read from one, whole or as it grows (`source`); records appended to one (`sink`).

Both survive rotation and crashes: a position names the file itself, and a record is written once.
"""
