"""Time, devices, memory: the loop, those who watch it, and taking it up again."""
