"""One rule for each fact: which expressions can introduce it, and which parts of an expression pass it on."""
