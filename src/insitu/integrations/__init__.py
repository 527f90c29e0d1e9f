"""insitu in the frameworks that run a training: each file imports its own one, and only when it is imported itself."""
