"""What every claim needs of a model, tried out on its density: no mixing of records, proper priors.

A record's log-likelihood must depend on its own sensitive values only. All records whose number has
a given bit get other values, and those without it must not notice; then the other way round. Two
records differ in some bit, so 2 log2 n changes separate every pair of them: a mean, a count, one
record that the others are measured from are all seen. Models of this package are proved, and tested
in full in the tests; here they take two changes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.models.contract import Arrays, OutcomeModel
from understudy.models.density import Density
from understudy.models.from_numpyro import NumPyroModel

PRIOR_DRAWS = 32
NEAR, FAR = 5.0, 15.0  # in units of the prior's own spread, where its tails are compared
END = 700.0  # stands for the logarithm of a number that is 0 or infinite in doubles,
MOST_BEYOND = 0.2  # and with a larger share of such draws their spread is not known


def is_proved(model: OutcomeModel) -> bool:
    """Whether the model is one of the package's own, and not somebody's function."""
    own = type(model).__module__.partition(".")[0] == "understudy"
    return own and not isinstance(model, NumPyroModel)


def refuse_mixing(density: Density, arrays: Arrays, thoroughly: bool) -> None:
    """Refused where one record's sensitive values change another's log-likelihood, or the prior."""
    names = density.model.targets
    first = np.asarray(arrays[names[0]]).reshape(density.n, -1)[:, 0]
    extremes = int(np.argmin(first)), int(np.argmax(first))
    position = np.random.default_rng(1).uniform(-1.0, 1.0, density.dimension)
    log_prior, loglik = map(np.asarray, density.evaluate_now(position, arrays))
    bits = max(1, (density.n - 1).bit_length()) if thoroughly else 1
    numbers = np.arange(density.n)
    for bit in range(bits):
        with_bit = (numbers >> bit) % 2 == 1
        for chosen in (with_bit, ~with_bit):
            for row in extremes:  # both: a group that has the one value already gets the other
                changed = dict(arrays)
                for name in names:
                    changed[name] = np.array(arrays[name])
                    changed[name][chosen] = arrays[name][row]
                new_prior, new_loglik = map(np.asarray, density.evaluate_now(position, changed))
                moved = not _same(loglik[~chosen], new_loglik[~chosen])
                if moved or not _same(log_prior, new_prior):
                    what = "another record's log-likelihood" if moved else "the prior"
                    raise Refused(
                        f"One record's sensitive values change {what} in this model (a mean, a "
                        "minimum, a count or one record taken from the data?); use public "
                        "constants instead."
                    )


def refuse_improper(density: Density, arrays: Arrays) -> None:
    """Refused where a prior is not a distribution: its own draws are not finite, or its tails do
    not fall off fast enough to be integrated.

    A tail is judged on the unconstrained scale, along each coordinate, between NEAR and FAR spreads
    of the prior's draws: p(r) must fall faster than 1/r.
    """
    keys = jax.random.split(jax.random.key(3), PRIOR_DRAWS)
    parameters, positions = density.prior_draws(keys, arrays)
    usable = np.ones(PRIOR_DRAWS, dtype=bool)
    for name, values in parameters.items():
        finite = np.isfinite(values).reshape(PRIOR_DRAWS, -1).all(axis=1)
        infinite = (usable & ~finite).sum()  # a proper prior with wide tails may draw some
        usable &= finite
        if infinite > MOST_BEYOND * PRIOR_DRAWS or not usable.any():
            raise Refused(_improper(name))
    # numbers that are 0 in doubles have a logarithm that is not finite
    draws = np.nan_to_num(np.asarray(positions)[usable], posinf=END, neginf=-END)
    names = density.coordinates
    centre = np.median(draws, axis=0)
    spread = 1.4826 * np.median(np.abs(draws - centre), axis=0)

    def at(point: NDArray[np.float64]) -> float:
        return float(density.evaluate_now(jnp.asarray(point), arrays)[0])

    beyond = np.mean(np.abs(draws) >= END, axis=0)
    for number, name in enumerate(names):
        if spread[number] == 0 or beyond[number] > MOST_BEYOND:  # many draws are 0 in doubles
            continue
        step = np.zeros(len(names))
        step[number] = spread[number]
        for sign in (1.0, -1.0):
            near, far = (at(centre + sign * r * step) + np.log(r) for r in (NEAR, FAR))
            if np.isfinite(near) and np.isfinite(far) and far >= near:
                raise Refused(_improper(name))


def _improper(name: str) -> str:
    return (
        f"The prior of `{name}` is improper or not finite; give it a proper one, or the clipped "
        "posterior does not exist."
    )


def _same(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return bool(np.allclose(a, b, rtol=1e-10, atol=1e-12, equal_nan=True))
