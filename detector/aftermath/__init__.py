"""What runs after an alarm: case files, and those who examine them. Off the path of detection."""
