"""The one lifecycle: `watch`, `record` and `guard` start probes, feed sinks, and always undo everything.

May import every other room. Nothing but `commands` and the public names may import it.
"""
