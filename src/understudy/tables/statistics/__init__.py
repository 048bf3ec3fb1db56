"""One file per statistic; `tables/statistic.py` says what each declares."""
