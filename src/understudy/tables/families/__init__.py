"""One file per family of regressions; `tables/family.py` says what each declares.

Any text at run time, where a wrong one is refused with the nearest; editors and type checkers see
the names of the families, in the stub that `scripts/write_reference.py` writes.
"""

FamilyName = str
LinkFamilyName = str
