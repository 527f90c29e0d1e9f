"""What insitu costs, against the least a tool can cost and against its peers: `python -m benchmarks`.

Everything is measured in one process and one run, in CPU time on one thread, and told as ratios: what is compared runs
in turn, again and again, and the median of the ratios of all turns counts. Seconds stand only where a person waits.
"""
