"""Who does the work of an engine: this thread, the cores of this machine, or a cluster; `engine.type`.

Called by the pipeline once an engine has learnt or is restored. Parts of the network decide what comes out,
bit for bit; a runner only decides where they are computed.
"""
