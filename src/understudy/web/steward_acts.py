"""What a steward does to accounts, from the API and from the pages alike (threat 27)."""

from __future__ import annotations

from understudy.errors import Refused
from understudy.ledger import accounts
from understudy.ledger.epsilon import parse_epsilon
from understudy.ledger.requests import grant_or_ask
from understudy.verify.service import NotFound, Service


def add(serving: Service, by: str, name: str, role: str, epsilon: str = "") -> str:
    """Add a user, with a first grant; the code with which she picks up her key.

    Where caps take two stewards, so does a further steward: another one must let the account in.
    """
    if epsilon:
        parse_epsilon(epsilon)  # refuse before the user exists
    alone = role != "steward" or serving.limit is None
    code = accounts.add_user(serving.ledger, name, role, by, code=True, active=alone)
    if epsilon:
        give(serving, by, name, epsilon)
    return code


def give(
    serving: Service, by: str, name: str, epsilon: str, dataset: str = "", until: str = ""
) -> int | None:
    """Grant epsilon; the number of the request that waits for a second steward, where it must."""
    file = serving.dataset(dataset).data.fingerprint if dataset else ""
    return grant_or_ask(serving.ledger, serving.limit, by, name, epsilon, file, until)


def new_code(serving: Service, by: str, name: str) -> str:
    """End a user's key; the code with which she picks up the next."""
    user = _known(serving, name)
    if user.role == "steward" and name != by and serving.limit is not None:
        raise Refused(
            "One steward does not replace another's key; she can do so herself, or the command "
            "line (`understudy user key`)."
        )
    return accounts.new_key(serving.ledger, name, by, code=True)


def set_active(serving: Service, by: str, name: str, active: bool) -> None:
    user = _known(serving, name)
    if name == by:
        raise Refused("You cannot shut yourself out or let yourself in; ask another steward.")
    second = active and user.role == "steward" and serving.limit is not None
    if second and accounts.added_by(serving.ledger, name) == by:
        raise Refused("You added this steward; another one must let the account in.")
    accounts.set_active(serving.ledger, name, active, by)


def _known(serving: Service, name: str) -> accounts.User:
    users = {user.name: user for user in accounts.list_users(serving.ledger)}
    if name not in users:
        raise NotFound(f"There is no user `{name}`; see the list of users.")
    return users[name]
