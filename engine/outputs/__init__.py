"""What we write: the place it may go to, one writer at a time, there whole or not at all."""
