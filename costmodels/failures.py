"""What fails, what a fabric can do about it, and what that costs.

Five classes of hardware failure and one of software. For each, every response a fabric allows is priced, and the cheapest
is taken: a spare GPU in the HB domain, a spare domain, a spare on the same rail, an optical re-patch, a detour through a
neighbour's NIC, or running with fewer data-parallel replicas.

Rates: the 419 unexpected interruptions of Llama 3 405B (arXiv 2407.21783, Table 5: 54 days on 16,384 H100) split by
cause. Leaf switches: 0.051% per month (Alibaba HPN, SIGCOMM 2024). NVSwitch chips: no public figure; taken as a leaf switch's.
"""

from __future__ import annotations

from math import ceil, exp
from typing import NamedTuple

from costmodels.goodput import DAY_S, best_spares, best_useful_fraction, mtbf_s, poisson_tail

COUNTS = {"gpu": 268, "server": 46, "link": 42, "software": 63}  # of 419, arXiv 2407.21783 Table 5 grouped
TOTAL = 419
MIGRATE = "migrate the domain"
SWAP_RAIL = "swap the rail in every domain"
LEAF_PER_DAY = 5.1e-4 / 30.4  # SIGCOMM 2024, doi 10.1145/3651890.3672265, section 2.3
NVSWITCH_PER_DAY = LEAF_PER_DAY  # assumption, see above


class Site(NamedTuple):
    """The fabric and cluster, as far as failures care."""

    gpus: int
    hb_size: int
    gpus_per_node: int
    any_to_any: bool
    rail_wired: bool
    dual_homed: bool  # each NIC on two leaves
    optical: bool  # circuits can be re-patched to a spare
    leaves: int
    nvswitches: int  # chips per HB domain


class Job(NamedTuple):
    """What the running plan makes of a failure."""

    data_parallel: int
    domain_bound: bool  # a tensor or expert group spans GPUs of one domain
    network_share: float  # exposed scale-out communication / iteration time
    inner_gpus: int = 1  # GPUs of one replica that lie side by side: tensor x context


class Recovery(NamedTuple):
    """Rates and times. `repair_s`: until a broken part is back."""

    interruptions_per_gpu_day: float = 4.7e-4
    checkpoint_s: float = 30.0
    restart_s: float = 600.0
    repair_s: float = DAY_S


class Response(NamedTuple):
    """One way to go on after a failure of one class. `loss`: expected share of throughput lost to it, restarts aside."""

    action: str
    loss: float
    spare_gpus: int
    note: str
    idle: float = 0.0  # the part of `loss` that is a reserve inside every domain
    pooled: bool = False  # its spares serve other classes too


class FailureClass(NamedTuple):
    """A class of failure at one site: how often, how much is hit, and the response chosen among those possible."""

    name: str
    per_day: float
    gpus_hit: int
    stops_job: bool
    chosen: Response
    responses: tuple[Response, ...]


def rates_per_day(site: Site, recovery: Recovery) -> dict[str, float]:
    """Failures per day of the whole cluster, by class.

    >>> site = Site(16384, 8, 8, True, True, False, False, 512, 4)
    >>> round(sum(v for k, v in rates_per_day(site, Recovery()).items() if k in COUNTS), 2)
    7.7
    """
    total = site.gpus * recovery.interruptions_per_gpu_day
    rates = {name: total * count / TOTAL for name, count in COUNTS.items()}
    if total > 0:
        if site.leaves:
            rates["leaf"] = site.leaves * LEAF_PER_DAY
        rates["nvswitch"] = ceil(site.gpus / site.hb_size) * site.nvswitches * NVSWITCH_PER_DAY
    return rates


def failure_classes(site: Site, job: Job, recovery: Recovery) -> list[FailureClass]:
    """Every class with its cheapest response.

    >>> site = Site(4608, 72, 4, False, True, False, False, 72, 18)
    >>> table = {c.name: c.chosen.action for c in failure_classes(site, Job(8, True, 0.05), Recovery())}
    >>> table["link"], table["software"]
    ('detour at half rate', 'restart')
    """
    rates = rates_per_day(site, recovery)
    leaf_gpus = ceil(site.gpus / site.leaves) if site.leaves else 0
    hit = {
        "gpu": 1,
        "server": min(site.gpus_per_node, site.hb_size),
        "link": 1,
        "leaf": leaf_gpus,
        "nvswitch": site.hb_size,
        "software": 0,
    }
    result = []
    for name, per_day in rates.items():
        responses = _responses(name, hit[name], per_day * recovery.repair_s / DAY_S, site, job)
        best = min(responses, key=lambda r: r.loss)
        stops = not (site.dual_homed and name in ("link", "leaf"))
        result.append(FailureClass(name, per_day, hit[name], stops, best, tuple(responses)))
    return _share_spares(result, site, recovery)


def _share_spares(classes: list[FailureClass], site: Site, recovery: Recovery) -> list[FailureClass]:
    """Classes that answer with the same spare domains, or the same spare rails, draw on one pool sized for their sum.

    Of the reserves that classes want inside a domain the largest serves all: two kinds broken in one domain are rare.
    """
    result = list(classes)
    for action, unit in ((MIGRATE, site.hb_size), (SWAP_RAIL, ceil(site.gpus / site.hb_size))):
        pool = [i for i, c in enumerate(result) if c.chosen.action == action and c.chosen.pooled]
        down = sum(result[i].per_day for i in pool) * recovery.repair_s / DAY_S
        spares, loss = _spares(down, unit / site.gpus)
        for i in pool:
            own = result[i].chosen
            part = result[i].per_day * recovery.repair_s / DAY_S / down
            gpus = spares * unit if i == pool[0] else 0
            note = f"{spares} spare {'domains' if action == MIGRATE else 'rails'}, shared by all classes that use them"
            result[i] = result[i]._replace(chosen=own._replace(loss=loss * part, spare_gpus=gpus, note=note))
    reserves = [i for i, c in enumerate(result) if c.chosen.idle]
    largest = max(reserves, key=lambda i: result[i].chosen.idle, default=-1)
    for i in reserves:
        own = result[i].chosen
        if i != largest:
            shared = own._replace(
                loss=own.loss - own.idle, spare_gpus=0, idle=0.0, note=f"{own.note}, from the largest reserve"
            )
            result[i] = result[i]._replace(chosen=shared)
    return result


def _responses(name: str, hit: int, down: float, site: Site, job: Job) -> list[Response]:
    """Responses to one class. `down`: mean number of broken parts at any time."""
    if name == "software":
        return [Response("restart", 0.0, 0, "nothing is broken")]
    found = []
    if name in ("link", "leaf"):
        found += _network_responses(name, down, site, job)
    if name in ("gpu", "server", "link"):
        found += _in_domain_responses(hit, down, site, job)
    if name in ("gpu", "link", "leaf") and not site.any_to_any and site.rail_wired and site.hb_size > 1:
        rails, loss = _spares(down, 1 / site.hb_size)
        if 0 < rails < site.hb_size:
            spares = rails * ceil(site.gpus / site.hb_size)
            note = f"{rails} spare rails; every domain leaves the broken one"
            found.append(Response(SWAP_RAIL, loss, spares, note, pooled=True))
    if name in ("gpu", "server", "link") and not job.domain_bound:
        found.append(_any_gpu_response(hit, down, site))
    domains_hit = _domains_hit(name, hit, site)
    if ceil(site.gpus / site.hb_size) > domains_hit:
        unit = domains_hit * site.hb_size
        spares, loss = _spares(down, unit / site.gpus)
        note = f"{spares * domains_hit} spare domains"
        found.append(Response(MIGRATE, loss, spares * unit, note, pooled=spares > 0 and domains_hit == 1))
    if job.data_parallel > 1:
        loss = min(1.0, down * _replicas_hit(name, hit, site, job) / job.data_parallel)
        found.append(Response("shrink data parallelism", loss, 0, "fewer replicas until the repair"))
    found.append(Response("wait for the repair", 1 - exp(-down), 0, "the job stands still"))
    return found


def _spares(down: float, share: float) -> tuple[int, float]:
    """Spare units and the expected loss: the idle share plus the time in which they do not suffice."""
    count = best_spares(down, share)
    return count, min(1.0, count * share + poisson_tail(down, count))


def _any_gpu_response(hit: int, down: float, site: Site) -> Response:
    """Without groups bound to a domain a lone GPU may be replaced by any on a Clos; on rails by one of its rail."""
    rails = 1 if site.any_to_any else min(site.hb_size, site.gpus)
    spares, loss = _spares(down / rails, hit * rails / site.gpus)
    if site.any_to_any:
        return Response("swap a GPU", loss, spares * hit, "any spare GPU")
    return Response("swap within the rail", loss, spares * hit * rails, f"{spares} spare GPUs on every rail")


def _domains_hit(name: str, hit: int, site: Site) -> int:
    """Domains that lose a member: with rail wiring a leaf touches one GPU of each of many domains."""
    if name != "leaf":
        return 1
    return hit if site.rail_wired else max(1, ceil(hit / site.hb_size))


def _replicas_hit(name: str, hit: int, site: Site, job: Job) -> int:
    """Data-parallel replicas that lose a member, replicas lying side by side in and across domains."""
    span = max(1, job.inner_gpus)
    touched = ceil(hit * site.hb_size / max(span, site.hb_size)) if name == "leaf" and site.rail_wired else ceil(hit / span)
    return min(job.data_parallel, max(1, touched))


def _network_responses(name: str, down: float, site: Site, job: Job) -> list[Response]:
    """A GPU that lost its NIC may send through a neighbour's, over the HB domain; both then have half the rate."""
    half = job.network_share / (1 + job.network_share)  # communication doubles while any is down
    loss = (1 - exp(-down)) * half
    if site.dual_homed:
        return [Response("half rate on the second port", loss, 0, "no interruption")]
    neighbour = site.hb_size > 1 and (name == "link" or site.rail_wired)
    if not neighbour:
        return []
    return [Response("detour at half rate", loss, 0, "through a neighbour's rail and NVLink")]


def _in_domain_responses(hit: int, down: float, site: Site, job: Job) -> list[Response]:
    """A spare inside the domain keeps NVLink groups whole. On rails it sits on the wrong rail: a detour, or a re-patch."""
    if hit >= site.hb_size:
        return []
    domains = ceil(site.gpus / site.hb_size)
    reserve, loss = _reserve(down / domains, hit, domains, site.hb_size)
    if reserve == 0 or reserve >= site.hb_size:
        return []
    spares = reserve * domains
    idle = reserve / site.hb_size
    note = f"{reserve} spare GPUs per domain"
    if site.any_to_any:
        return [Response("swap within the domain", loss, spares, note + ", any rail", idle)]
    if site.optical:
        return [Response("swap within the domain, optical re-patch", loss, spares, note + "; circuits follow", idle)]
    detour = (1 - exp(-down)) * job.network_share / (1 + job.network_share)
    note += "; on another rail, so it relays through NVLink"
    return [Response("swap within the domain, detour at half rate", min(1.0, loss + detour), spares, note, idle)]


def _reserve(down: float, hit: int, domains: int, hb_size: int) -> tuple[int, float]:
    """Spare GPUs kept in every domain, and the loss: their share plus the chance that some domain runs out."""
    best, least = 0, min(1.0, domains * poisson_tail(down, 0))
    for n in range(1, hb_size // hit):
        if n * hit / hb_size >= least:
            break
        loss = n * hit / hb_size + min(1.0, domains * poisson_tail(down, n))
        if loss < least:
            best, least = n * hit, loss
    return best, least


class Goodput(NamedTuple):
    """Expected useful share of throughput and what it is made of: the product of the three factors."""

    goodput: float
    useful_fraction: float  # checkpoints, lost work, restarts
    in_service: float  # spares and reduced operation
    mtbf_s: float
    spare_gpus: int


def expected_goodput(site: Site, job: Job, recovery: Recovery) -> Goodput:
    """Goodput with the cheapest response to each class. `goodput` = `useful_fraction` x `in_service`.

    >>> site = Site(16384, 8, 8, True, True, False, False, 512, 4)
    >>> g = expected_goodput(site, Job(128, True, 0.05), Recovery())
    >>> 0.8 < g.goodput < g.useful_fraction < 0.9
    True
    """
    classes = failure_classes(site, job, recovery)
    stops = sum(c.per_day for c in classes if c.stops_job)
    mean = mtbf_s(1.0, stops)
    useful = best_useful_fraction(recovery.checkpoint_s, recovery.restart_s, mean)
    in_service = 1.0
    for c in classes:
        in_service *= 1 - c.chosen.loss
    return Goodput(useful * in_service, useful, in_service, mean, sum(c.chosen.spare_gpus for c in classes))
