"""Following variables of Python functions, without torch: functions rewritten to report, lines, callees."""
