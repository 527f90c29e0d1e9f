"""What is inside compiled regions: the graphs of dynamo, AOTAutograd and inductor, seen while they are made and run.

`graph_hooks` replaces a few functions of the compiler while a session runs, `graph_sources` holds what they receive,
and `graph_session` writes the runs of graphs onto the tapes of a session. Nothing here changes what is compiled.
"""
