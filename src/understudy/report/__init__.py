"""Reports: the numbers of a release, its figures, and two pages, one for inside and one public."""
