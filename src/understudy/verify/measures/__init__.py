"""What an answer measures: one file each (see `understudy.verify.measure`)."""
