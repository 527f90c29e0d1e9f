"""The public verbs that are not sessions: `compare`, `explain` and `save`."""
