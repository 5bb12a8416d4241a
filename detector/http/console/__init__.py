"""What only the console asks for: signals over time, comments and audit trail, silences, exports.

Handlers of `detector.http.routes`, which declares path, role and form of each.
"""
