"""Everything that a command does from beginning to end: run, bench, profile, inspect, doctor."""
