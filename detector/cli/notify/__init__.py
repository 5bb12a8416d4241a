"""Commands about who is told: silences, and a test alert."""
