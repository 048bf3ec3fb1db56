"""The record axis over several devices: what belongs to records is divided, the rest is repeated.

A chain's density is a sum over records, so each device adds up its own and XLA adds up the sums.
Arrays say where they are (`NamedSharding`), and the same program is compiled for that. Where the
number of devices does not divide that of the records, copies of the first record fill them up, with
weight 0. With one device nothing is changed.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from understudy.models.density import Density, density_at

AXIS = "record"
BY_RECORD = ("alpha", "reference_loglik", "units")  # beside the model's own arrays


def over_devices(density: Density, inputs: dict[str, Any]) -> tuple[Density, dict[str, Any]]:
    """The density at the padded number of records, and its inputs where they belong."""
    devices = jax.devices()
    own = all(len(array) == density.n for array in inputs["arrays"].values())
    if len(devices) == 1 or not own or type(density) is not Density:  # counts are not records
        return density, inputs
    mesh = Mesh(np.array(devices), (AXIS,))
    divided, repeated = (
        NamedSharding(mesh, PartitionSpec(*axis))  # type: ignore[no-untyped-call]
        for axis in ((AXIS,), ())
    )
    rows = np.arange(-(-density.n // len(devices)) * len(devices))
    filling = rows >= density.n
    rows[filling] = 0
    arrays = {name: np.asarray(array)[rows] for name, array in inputs["arrays"].items()}
    padded = density_at(density.model, arrays)
    if padded.shapes != density.shapes:  # a parameter of each record
        return density, inputs
    placed = {
        name: jax.device_put(value, repeated)
        for name, value in inputs.items()
        if name != "arrays" and name not in BY_RECORD
    }
    for name in set(BY_RECORD) & set(inputs):
        values = np.asarray(inputs[name])[rows]
        placed[name] = jax.device_put(
            np.where(filling, 0.0, values) if name == "alpha" else values, divided
        )
    placed["arrays"] = {name: jax.device_put(array, divided) for name, array in arrays.items()}
    return padded, placed


def several_devices(inputs: dict[str, Any]) -> bool:
    """Whether records are divided. Programs that talk to each other over devices must not run side
    by side: each could wait for the other."""
    return len(inputs["alpha"].devices()) > 1
