"""Capture: what torch, autograd and Python do becomes records on a tape, and events when somebody asks.

Probes write the records: `ops` for functions and operators, `modules`, `python` and `compiled` for calls around them,
`backward` for gradients; `tape` is the layout, `decode` and its parts turn records into events of `insitu.trace`.
`variables` follows named variables, `values` records values by path, `guard` and `explain` collect what the judgements
in `insitu.trace` ask for.

A file belongs here if it reads torch, Python frames or the tape. Capture never judges and makes no text for users; only
`torch_internals` names private parts of torch. The files of the hot path (`ops`, `modules`, `arguments`, `tensors`) may
be dense: each Python call in them is paid for each event, as tests/budget.txt counts.
"""
