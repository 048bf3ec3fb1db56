# Written from the code by scripts/write_reference.py.
from typing import Literal

FamilyName = Literal["binomial", "gaussian", "multinomial", "ordered", "poisson", "probit"]
LinkFamilyName = Literal["binomial", "gaussian", "poisson"]
