"""What is found out after an alarm: cases are analyzed in the background, findings become records.

The service runs one low-priority thread with a time limit per analyzer, so that detection never waits. An
analyzer is one module in the registry; another package brings one by an entry point `detector.analyzers`.
"""
