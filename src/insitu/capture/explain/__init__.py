"""Why an exception was raised: the note it carries, read from the tape and the frames when somebody looks at it."""
