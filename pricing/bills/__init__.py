"""What was billed: exports in FOCUS and CUR 2.0, read line by line into `BilledLine`."""
