"""What a pod as a whole holds and may hold: its limit, scope and outstanding amounts."""
