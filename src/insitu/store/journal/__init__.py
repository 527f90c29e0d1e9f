"""The journal of each rank: frames appended while a run goes on, readable after a crash."""
