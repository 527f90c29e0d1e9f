"""The journals that ranks write while a run goes on.

`journal_writer` appends frames to the journal of one rank, and `journal_reader` reads them in any state. `run_shards`,
`entry_table` and `journaled_runs` are about the journals of several ranks and runs. Nothing here imports h5py or knows
the file of a run.
"""
