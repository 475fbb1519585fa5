"""Makespan of pipeline schedules in closed form, and the micro-batches a stage holds.

A pipeline has P stages; the first and the last may differ from the P - 2 middle ones (embedding, head, uneven layers).
Stage times are seconds per micro-batch of the whole stage, all v chunks; chunks share a stage's time evenly. `hop_s` is
the exposed point-to-point time of each crossing between stages; a crossing delays the receiver and does not keep the
sender busy. With P = 1 the stage is given as `first`.

The makespan is the longest path through the dependency graph of the schedule. Each closed form is the maximum over a
few families of such paths (fill through one stage, steady on one stage, drain; detours to the last stage; loops over
several stages, which matter when hops are slow), so it never exceeds the true makespan. Orders and oracle:
`costmodels.schedule`. Legend: j stage, W_j warm-up forwards of stage j, s = f + b.
"""

from __future__ import annotations

from costmodels._jit import jit


@jit
def _through(stage, P, first, mid, last):
    """Sum of a quantity over stages 0..stage (0 for stage < 0)."""
    if stage < 0:
        return 0.0
    if stage == P - 1 and P > 1:
        return first + (P - 2) * mid + last
    return first + stage * mid


@jit
def _at(stage, P, first, mid, last):
    """A quantity of one stage."""
    if stage == 0:
        return first
    return last if stage == P - 1 else mid


@jit
def _worst(stage, P, first, mid, last):
    """Largest of a quantity over stages 0..stage."""
    worst = first
    if stage >= 1 and P > 2:
        worst = max(worst, mid)
    if stage == P - 1 and P > 1:
        worst = max(worst, last)
    return worst


@jit
def _warm_up(stage, P, v):
    """Forward chunks stage runs before it alternates (Megatron's count, before it is capped by m v)."""
    if v == 1:
        return P - 1 - stage
    return 2 * (P - 1 - stage) + (v - 1) * P


@jit
def _fill(stage, turn, P, v, first, mid, last, back_first, back_mid, back_last, hop_s):
    """Seconds until `stage` can run its first backward, for a path that warms up, turns at stage `turn`, and returns.

    By symmetry, with forward and backward exchanged, the seconds of the drain.
    """
    forward = _through(turn, P, first, mid, last) + _warm_up(turn, P, v) * _worst(turn, P, first, mid, last)
    back = _through(turn, P, back_first, back_mid, back_last) - _through(stage, P, back_first, back_mid, back_last)
    return (forward + back) / v + (2 * turn - stage) * hop_s


@jit
def _longest_fill(stage, P, v, first, mid, last, back_first, back_mid, back_last, hop_s):
    """The longest fill (or drain) over the turning stages that can be extreme."""
    fill = _fill(stage, P - 1, P, v, first, mid, last, back_first, back_mid, back_last, hop_s)
    if stage < P - 1:
        fill = max(fill, _fill(stage, P - 2, P, v, first, mid, last, back_first, back_mid, back_last, hop_s))
    if stage < P - 2:
        fill = max(fill, _fill(stage, stage, P, v, first, mid, last, back_first, back_mid, back_last, hop_s))
    if stage == 0 and P > 3:
        fill = max(fill, _fill(stage, 1, P, v, first, mid, last, back_first, back_mid, back_last, hop_s))
    if v > 1 and hop_s > 0.0:  # the first micro-batch through all chunks
        back = _through(P - 1, P, back_first, back_mid, back_last) - _through(stage, P, back_first, back_mid, back_last)
        through = _through(P - 1, P, first, mid, last) + (v * P - 1) * hop_s
        fill = max(fill, through + back / v + (P - 1 - stage) * hop_s)
    return fill


@jit
def _wrap_fill(stage, turn, P, v, first, mid, last, steady, hop_s):
    """Fill of a path that is steady on stage `turn` for the first group's last chunk and wraps to the next group.

    It ends after the forward of index (v + 1) P of `stage`, 2 + 2 stage chunks later than `_fill`.
    """
    pairs = 2 * turn + 2 - P
    if pairs < 0:
        return 0.0
    forward = _through(P - 1, P, first, mid, last) + _through(stage, P, first, mid, last)
    wait = _warm_up(turn, P, v) * _worst(turn, P, first, mid, last)
    return (forward + wait + pairs * steady) / v + (P + stage) * hop_s


@jit
def _loops(units, stage, top, P, v, first, mid, last, hop_s):
    """Seconds of `units` steady steps on paths that loop over stages top..stage: slow hops make these critical."""
    depth = stage - top + 1
    step = depth if v == 1 else 2 * depth - 1
    times = units // step
    rest = units - times * step
    own = _at(stage, P, first, mid, last)
    span = _through(stage, P, first, mid, last) - _through(top - 1, P, first, mid, last)
    total = times * (span / v + 2 * (depth - 1) * hop_s)
    remainder = rest * own / v
    if v == 1 and rest > 0:
        span = _through(stage, P, first, mid, last) - _through(stage - rest, P, first, mid, last)
        remainder = max(remainder, span + 2 * (rest - 1) * hop_s)
    return total + remainder


@jit
def _steady(units, stage, P, v, first, mid, last, hop_s):
    """Longest `units` steady steps that start and end on `stage`."""
    best = units * _at(stage, P, first, mid, last) / v
    if hop_s > 0.0 and stage > 0:
        best = max(best, _loops(units, stage, 0, P, v, first, mid, last, hop_s))
        if stage > 1:
            best = max(best, _loops(units, stage, 1, P, v, first, mid, last, hop_s))
    return best


@jit
def gpipe(P, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """GPipe: (total_s, steady_s, bubble_s), exact. Forward and backward are two flow lines, one after the other.

    total = sum f + (m - 1) max f + sum b + (m - 1) max b + 2 (P - 1) hop; steady is m times the slowest stage.

    >>> gpipe(4, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (33.0, 24.0, 9.0)
    """
    total = _through(P - 1, P, first_fwd, mid_fwd, last_fwd) + _through(P - 1, P, first_bwd, mid_bwd, last_bwd)
    total += (m - 1) * (_worst(P - 1, P, first_fwd, mid_fwd, last_fwd) + _worst(P - 1, P, first_bwd, mid_bwd, last_bwd))
    total += 2 * (P - 1) * hop_s
    steady = m * _worst(P - 1, P, first_fwd + first_bwd, mid_fwd + mid_bwd, last_fwd + last_bwd)
    return total, steady, total - steady


@jit
def _steady_on(j, P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """Longest path whose steady part is on stage j."""
    first, mid, last = first_fwd + first_bwd, mid_fwd + mid_bwd, last_fwd + last_bwd
    own = _at(j, P, first, mid, last)
    best = _through(j - 1, P, first, mid, last) / v + m * own + 2 * j * hop_s
    units = m * v - 1 - _warm_up(j, P, v)
    if units < 1 and (units < 0 or j < P - 1):
        return best
    fill = _longest_fill(j, P, v, first_fwd, mid_fwd, last_fwd, first_bwd, mid_bwd, last_bwd, hop_s)
    drain = _longest_fill(j, P, v, first_bwd, mid_bwd, last_bwd, first_fwd, mid_fwd, last_fwd, hop_s)
    best = max(best, fill + drain + _steady(units, j, P, v, first, mid, last, hop_s))
    late = 2 + 2 * j
    if v > 1 and m >= 2 * P and j <= 1 and units >= late:
        wrap_fill = _wrap_fill(j, P - 1, P, v, first_fwd, mid_fwd, last_fwd, last, hop_s)
        wrap_drain = _wrap_fill(j, P - 1, P, v, first_bwd, mid_bwd, last_bwd, last, hop_s)
        if P > 2:
            wrap_fill = max(wrap_fill, _wrap_fill(j, P - 2, P, v, first_fwd, mid_fwd, last_fwd, mid, hop_s))
            wrap_drain = max(wrap_drain, _wrap_fill(j, P - 2, P, v, first_bwd, mid_bwd, last_bwd, mid, hop_s))
        fill, drain = max(fill, wrap_fill - late * own / v), max(drain, wrap_drain - late * own / v)
        if units >= 2 * late:
            best = max(best, fill + drain + units * own / v)
    return best


@jit
def _few_micro_batches(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """Longest path when some stages run every forward before any backward (m up to about P)."""
    first, mid, last = first_fwd + first_bwd, mid_fwd + mid_bwd, last_fwd + last_bwd
    if v == 1:
        slowest = max(last, max(_worst(P - 2, P, first_fwd, mid_fwd, last_fwd), _worst(P - 2, P, first_bwd, mid_bwd, last_bwd)))
        return _through(P - 1, P, first, mid, last) + 2 * (P - 1) * hop_s + (m - 1) * slowest
    best = 0.0
    turn = min(P - 1, ((v + 1) * P - 2 - m * v) // 2)  # last stage that is all warm-up
    if turn >= 0:
        worst = _worst(turn, P, first_fwd, mid_fwd, last_fwd) + _worst(turn, P, first_bwd, mid_bwd, last_bwd)
        best = (_through(turn, P, first, mid, last) + (m * v - 1) * worst) / v + 2 * turn * hop_s
        if turn < P - 1:
            turn += 1
            forward, backward = _worst(turn, P, first_fwd, mid_fwd, last_fwd), _worst(turn, P, first_bwd, mid_bwd, last_bwd)
            spread = _warm_up(turn, P, v) * (forward + backward) + (m * v - 1 - _warm_up(turn, P, v)) * max(forward, backward)
            best = max(best, (_through(turn, P, first, mid, last) + spread) / v + 2 * turn * hop_s)
    return best


@jit
def _laps(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """Longest interleaved path that goes round all chunks: one trip each way, and (v - 1) laps per further group."""
    forward = _through(P - 1, P, first_fwd, mid_fwd, last_fwd)
    backward = _through(P - 1, P, first_bwd, mid_bwd, last_bwd)
    last = last_fwd + last_bwd
    lap = max(P * last / v, max(forward, backward) / v + P * hop_s)
    groups = max(1, m // P)
    return forward + backward + 2 * (v * P - 1) * hop_s + (groups - 1) * (v - 1) * lap + (m - 1) * last / v


@jit
def one_f_one_b(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """1F1B (v = 1) or Megatron's interleaved 1F1B (v > 1): (total_s, steady_s, bubble_s).

    steady = m x slowest stage; bubble = total - steady and holds fill, drain and exposed hops (call with hop_s = 0 to
    part them). With equal stages and no hops the bubble is (P - 1) s / v. Interleaving needs m to be a multiple of P.

    >>> one_f_one_b(4, 1, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (33.0, 24.0, 9.0)
    >>> one_f_one_b(4, 2, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (28.5, 24.0, 4.5)
    """
    steady = m * _worst(P - 1, P, first_fwd + first_bwd, mid_fwd + mid_bwd, last_fwd + last_bwd)
    if P == 1:
        return steady, steady, 0.0
    times = (first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s)
    total = max(_steady_on(0, P, v, m, *times), _steady_on(P - 1, P, v, m, *times))
    if P > 2:
        total = max(total, _steady_on(1, P, v, m, *times))
    if P > 3:
        total = max(total, _steady_on(P - 2, P, v, m, *times))
    if m <= P:
        total = max(total, _few_micro_batches(P, v, m, *times))
    if v > 1:
        total = max(total, _laps(P, v, m, *times))
    return total, steady, total - steady


@jit
def in_flight(P, v, m, stage):
    """Micro-batches whose activations a stage holds at its peak, in units of the whole stage (v chunks each 1/v).

    1F1B: min(m, P - stage). Interleaved: (2 (P - 1 - stage) + (v - 1) P + 1) chunks, at most m v. GPipe would hold m.

    >>> in_flight(4, 1, 8, 0), in_flight(4, 2, 8, 0), in_flight(4, 2, 4, 3)
    (4.0, 5.5, 2.5)
    """
    if P == 1:
        return 1.0
    return min(_warm_up(stage, P, v) + 1, m * v) / v
