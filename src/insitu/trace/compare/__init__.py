"""Where two runs differ: calls laid side by side, judged, and told as a `Diff`."""
