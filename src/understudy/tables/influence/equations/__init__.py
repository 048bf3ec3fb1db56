"""One file per estimating equation; `tables/influence/equation.py` says what each declares."""
