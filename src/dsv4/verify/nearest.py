"""Where nothing explains everything: the server that leaves least unexplained, or two in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from dsv4.profiles.server_faults import FaultVariant, variants
from dsv4.verify.fits import Fits, usual_count
from dsv4.verify.hypotheses import Hypothesis
from dsv4.verify.observations import Observation
from dsv4.verify.verdicts import Explanation

# A fault belongs to the nearest server if it explains so many requests more, ...
LEAST_GAIN = 2
# ... and if hardly anything is left unexplained: one part of so many of all requests, and of those
# that the clean server leaves. Faults that explain a half of them are no nearer than none.
LEAST_SHARE = 10
# A second fault is looked for where the first leaves one part of so many.
LEAST_PROMISE = 4
LEAST_RELIEF = 2
# Servers that answer in turn are told apart by what each alone explains. One with a fault needs
# more than a clean one: with every fault of every server, some pair explains a few odd counts.
LEAST_OF_ONE_SERVER = 2
LEAST_OF_FAULTY_SERVER = 4
# More where no request was answered in two ways: what is changed may look like another server.
LEAST_BY_REQUEST = 5


def nearest(fits: Fits, preferred: Sequence[str] = ()) -> list[Explanation]:
    """The servers that leave least unexplained, with the faults that leave less; the likeliest
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
    """The hypotheses with one fault more that explain most, all of them if several do as much."""
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
            # What a fault has nothing to do with is explained as it was.
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
    """Where the counts stand that a fault has to do with."""
    touched = fits.forecasts.touched(fault)
    return frozenset(
        n for n, o in enumerate(fits.observations) if o.probe in touched and o.count is not None
    )


def _explained(fits: Fits, hypothesis: Hypothesis) -> int:
    """How many counts a hypothesis explains: a refusal has many reasons."""
    return sum(o.count is not None and fits.explains(hypothesis, o) for o in fits.observations)


def _alike(fits: Fits, server: Hypothesis) -> int:
    """How many counts are off by the same number, which may be none: a text that is added to
    every request changes all of them."""
    return max(Counter(off_by(fits, server).values()).values(), default=0)


def off_by(fits: Fits, server: Hypothesis) -> dict[str, int]:
    """By the names of requests, how many tokens more were counted than a server would have; the
    last answer of each. One that it would have refused is not among them."""
    off: dict[str, int] = {}
    for observation in fits.observations:
        _, prediction = fits.forecasts.prediction(server, observation.probe)
        expected = usual_count(prediction, server.server.special_text_acts)
        if expected is not None and observation.count is not None:
            off[observation.probe] = observation.count - expected
    return off


# Counts that vary, and nobody knows why.


def nearest_of_varying(fits: Fits, spread: int) -> list[tuple[Hypothesis, frozenset[str]]]:
    """The servers whose counts are nearest to those that vary, and the requests that are off by no
    more than the `spread` of what was seen, which is of few answers, and may be twice as wide."""
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


def two_servers(fits: Fits) -> tuple[Explanation, Explanation] | None:
    """Two servers that answer in turn, of which each explains some, and both together all; the one
    that explains more first. None where no two do."""
    servers = [Explanation(server, ()) for server in fits.forecasts.servers()]
    return _pair(fits, servers, servers, LEAST_OF_ONE_SERVER) or _pair(
        fits, servers, list(_faulty(fits)), LEAST_OF_FAULTY_SERVER
    )


def two_by_request(
    fits: Fits, least: int = LEAST_BY_REQUEST
) -> tuple[Explanation, Explanation] | None:
    """Two known servers, of which the request says which answers: each count is one of theirs, and
    so many are those of one alone."""
    servers = [Explanation(server, ()) for server in fits.forecasts.servers()]
    return _pair(fits, servers, servers, least)


def _faulty(fits: Fits) -> Iterator[Explanation]:
    """The servers with one fault each that explains more than one odd count."""
    for server in fits.forecasts.servers():
        unexplained = [o for o in fits.observations if not fits.explains(server, o)]
        for hypothesis in fits.forecasts.with_one_fault(server, frozenset()):
            if sum(fits.explains(hypothesis, o) for o in unexplained) >= LEAST_GAIN:
                yield Explanation(hypothesis, hypothesis.ids)


def _pair(
    fits: Fits, first: Sequence[Explanation], second: Sequence[Explanation], least: int
) -> tuple[Explanation, Explanation] | None:
    everything = fits.bits(lambda o: o.count is not None)
    best: tuple[int, tuple[Explanation, Explanation]] | None = None
    masks = {
        each.hypothesis: everything
        & fits.bits(lambda o, each=each: fits.explains(each.hypothesis, o))  # type: ignore[misc]
        for each in (*first, *second)
    }
    for one in first:
        for other in second:
            a, b = masks[one.hypothesis], masks[other.hypothesis]
            alone = min((a & ~b).bit_count(), (b & ~a).bit_count())
            if a | b == everything and alone >= least and _is_no_jitter(fits, one, other, b & ~a):
                pair = (one, other) if a.bit_count() >= b.bit_count() else (other, one)
                size = (a & b).bit_count()
                if best is None or size < best[0]:
                    best = size, pair
    return None if best is None else best[1]


def _is_no_jitter(fits: Fits, one: Explanation, other: Explanation, only: int) -> bool:
    """Whether a server with a fault differs from the other one, and from itself without the fault,
    in more than one number that is added to its counts, as a counter may do at random."""
    if not other.faults:
        return True
    seen = [o for n, o in enumerate(fits.observations) if only >> n & 1]
    clean = other.hypothesis.without_faults
    return all(len(_added(fits, server, seen)) > 1 for server in (one.hypothesis, clean))


def _added(fits: Fits, server: Hypothesis, seen: Sequence[Observation]) -> set[int]:
    """By how many tokens these counts differ from a server's."""
    forecasts = ((o.count, fits.forecasts.prediction(server, o.probe)[1]) for o in seen)
    return {
        count - expected
        for count, expected in forecasts
        if isinstance(expected, int) and count is not None
    }


def in_turn(pair: tuple[Explanation, Explanation]) -> Explanation:
    """The first of two servers, with the faults of both."""
    faults = {"two-servers"}.union(*(each.faults for each in pair))
    return replace(pair[0], faults=tuple(sorted(faults)))
