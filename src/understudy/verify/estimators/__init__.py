"""What a question can be about: one file each (see `understudy.verify.estimator`)."""
