"""One file per risk measure; `risk/measure.py` says what each declares."""
