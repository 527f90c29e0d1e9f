"""Where a size comes from: one rule for each family of operators says which input passed a dimension on."""
