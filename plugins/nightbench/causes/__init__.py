"""What a change is put down to, by evidence. Pure."""
