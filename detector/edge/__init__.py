"""One network watched by several daemons: what they tell each other of the nodes at the cuts between them.

Pure but for the files of the shared dictionary: `neighbours` is part of the pipeline, and what is heard is an
entry of the journal. The task that carries messages is `detector.daemon.boundary_exchange`.
"""
