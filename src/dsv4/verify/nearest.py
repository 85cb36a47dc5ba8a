"""The server that leaves least unexplained if none explains everything; or two in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations

from dsv4.profiles.server_faults import FaultVariant, variants
from dsv4.verify.fits import Fits, usual_count
from dsv4.verify.hypotheses import Hypothesis
from dsv4.verify.verdicts import Explanation

# A fault belongs to the nearest server if it explains at least so many requests more, ...
LEAST_GAIN = 2
# ... and if at most one in so many of all requests is left unexplained, ...
LEAST_SHARE = 10
# (a second fault is looked for if the first leaves at most one in so many)
LEAST_PROMISE = 4
# ... and at most one in so many of those that the clean server leaves.
LEAST_RELIEF = 2
# Servers that answer in turn are told apart by the counts that only one of them explains.
LEAST_OF_ONE_SERVER = 2
# More if no request was answered in two ways: a changed request may look like another server.
LEAST_BY_REQUEST = 5


def nearest(fits: Fits, preferred: Sequence[str] = ()) -> list[Explanation]:
    """The servers that leave least unexplained, with the faults that leave even less; the likeliest
    first. `preferred` are profiles that the server itself names, which breaks ties."""
    servers = fits.forecasts.servers()
    likeliest = max(
        servers,
        key=lambda server: (
            _alike(fits, server),
            _explained(fits, server),
            fits.explained_refusals(server),
            server.profile in preferred,
        ),
    )
    best = _with_one_more(fits, servers, preferred) or [likeliest]
    total = sum(o.count is not None for o in fits.observations)
    if (total - _explained(fits, best[0])) * LEAST_PROMISE <= total:
        best = _with_one_more(fits, best, preferred) or best
    clean, faulty = (total - _explained(fits, each) for each in (likeliest, best[0]))
    if faulty * LEAST_SHARE > total or faulty * LEAST_RELIEF > clean:
        best = [likeliest]
    unique = {(each.profile, each.texts, each.ids): each for each in reversed(best)}
    return [Explanation(each, each.ids) for each in reversed(unique.values())]


def _with_one_more(
    fits: Fits, bases: Iterable[Hypothesis], preferred: Sequence[str]
) -> list[Hypothesis]:
    """The hypotheses with one more fault that explain most; several if they explain as much."""
    best: list[Hypothesis] = []
    most = 0
    touched = {fault: _touched_by(fits, fault) for fault in variants()}
    for base in bases:
        own = {
            n
            for n, o in enumerate(fits.observations)
            if o.count is not None and fits.explains(base, o)
        }
        for fault in fits.forecasts.further_faults(base):
            # Requests that the fault cannot change are explained as before.
            untouched = len(own - touched[fault])
            least = max(most, len(own) + LEAST_GAIN)
            if untouched + len(touched[fault]) < least:
                continue
            each = base.having(fault)
            changed = (fits.observations[n] for n in touched[fault])
            explained = untouched + sum(fits.explains(each, o) for o in changed)
            if explained >= least:
                best = [*best, each] if explained == most else [each]
                most = explained
    return sorted(best, key=lambda each: each.profile not in preferred)


def _touched_by(fits: Fits, fault: FaultVariant) -> frozenset[int]:
    """The positions of the counts that a fault may change."""
    touched = fits.forecasts.touched(fault)
    return frozenset(
        n for n, o in enumerate(fits.observations) if o.probe in touched and o.count is not None
    )


def _explained(fits: Fits, hypothesis: Hypothesis) -> int:
    """The number of counts that a hypothesis explains. Refusals have many reasons: left out."""
    return sum(o.count is not None and fits.explains(hypothesis, o) for o in fits.observations)


def _alike(fits: Fits, server: Hypothesis) -> int:
    """The number of counts that are off by the same amount, which may be 0: a text that is added
    to every request changes all of them."""
    return max(Counter(off_by(fits, server).values()).values(), default=0)


def off_by(fits: Fits, server: Hypothesis) -> dict[str, int]:
    """By the names of requests, the tokens that were counted beyond what this server would count,
    in the last answer to each. Requests that the server would refuse are left out."""
    off: dict[str, int] = {}
    for observation in fits.observations:
        _, prediction = fits.forecasts.prediction(server, observation.probe)
        expected = usual_count(prediction, server.server.special_text_acts)
        if expected is not None and observation.count is not None:
            off[observation.probe] = observation.count - expected
    return off


# Counts that vary for an unknown reason.


def nearest_of_varying(fits: Fits, spread: int) -> list[tuple[Hypothesis, frozenset[str]]]:
    """The servers whose counts are nearest to those that vary, each with the requests that are off
    by no more than twice the `spread` that was seen: few answers may show half of it."""
    found: list[tuple[Hypothesis, frozenset[str]]] = []
    most = 0, 0
    for server in fits.forecasts.servers():
        off = off_by(fits, server)
        windows = [
            frozenset(probe for probe, n in off.items() if least <= n <= least + 2 * spread)
            for least in set(off.values())
        ]
        window = max(windows, key=len, default=frozenset[str]())
        key = len(window), fits.explained_refusals(server)
        if key >= most:
            found = [*(found if key == most else ()), (server, window)]
            most = key
    return found


# Two servers behind one address.


def two_servers(fits: Fits, least: int) -> tuple[Hypothesis, Hypothesis] | None:
    """Two known servers that together explain all counts, and of which each explains at least so
    many that the other does not; the one that explains more first. None where no two do."""
    everything = fits.bits(lambda o: o.count is not None)
    explained = {
        server: everything & fits.bits(partial(fits.explains, server))
        for server in fits.forecasts.servers()
    }

    def fit_together(one: Hypothesis, other: Hypothesis) -> bool:
        a, b = explained[one], explained[other]
        return a | b == everything and least <= min((a & ~b).bit_count(), (b & ~a).bit_count())

    def in_common(pair: tuple[Hypothesis, Hypothesis]) -> int:
        return (explained[pair[0]] & explained[pair[1]]).bit_count()

    pairs = (pair for pair in combinations(explained, 2) if fit_together(*pair))
    best = min(pairs, key=in_common, default=None)
    if best is None:
        return None
    one, other = best
    is_first = explained[one].bit_count() >= explained[other].bit_count()
    return (one, other) if is_first else (other, one)
