"""One file per format; `survey/file_format.py` says what each declares."""
