"""The checks of `insitu.guard`: NaN and Inf where they are made, the health of a training."""
