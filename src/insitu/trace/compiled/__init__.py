"""What torch.compile did, as plain data: the graphs that it captured, their kernels, and rows for the views.

`graph_text` and `kernel_code` read what torch prints of a graph and what inductor generates for it. `fusion` finds
which calls of the graph each kernel computes, and `compiled_rows` makes calls of all that, for the tree and the page.
"""
