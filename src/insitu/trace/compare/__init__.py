"""Where two runs differ, and why: plain data in, plain data out.

The stages are `stops` and `pairs` (which call is beside which), `evidence` (what is known of each pair alone), `causes`
(one pass over the pairs: which of them are causes) and `differences` (the rows and causes of a `Diff`). `traces` calls
them in this order. `investigation` then looks at the tensors of the first causes, and says what to read next.

Judgements about two runs may come in; sentences about them belong in `view.reason`, and what is known about one torch
function belongs in `trace.operation`.
"""
