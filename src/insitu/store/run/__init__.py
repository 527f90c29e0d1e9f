"""The file of a run, and the series that users read from it.

Writing: `merge` chooses the journals, `journal_survey` plans each variable, `run_file_writer` copies the values.
Reading: `run` and `series` are public; `run_file_reader`, `run_journals` and `joined_run` are their three sources.
Code belongs here if it needs journals or the file; `run_start` and `unmerge` need both.
"""
