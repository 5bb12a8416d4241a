"""What only the console asks for: signals over time, comments and audit trail, silences, exports."""
