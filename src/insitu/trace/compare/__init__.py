"""Where two runs part: calls laid side by side, judged, and told as a `Diff`."""
