"""Values by path: which targets path patterns name in a model, and how their values are taken at each step."""
