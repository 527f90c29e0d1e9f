"""What `insitu.guard` collects while a program runs: which outputs and gradients are not finite, and the training.

handlers.py runs at each torch function, nodes.py and hooks.py in backward passes, training.py at steps of optimizers.
Only facts belong here: `trace.origin` decides where a NaN or Inf began, `trace.health` what is wrong with a training.
"""
