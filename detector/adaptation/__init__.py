"""Soft sensors refitted under the shift of an incident (`detector adapt`): fit, model file, CSV, report page.

Called by the command and by an action of the diagnosis. Says by held-out error whether the refitted model is
better, and refuses where the data cannot tell.
"""
