"""Makespan of pipeline schedules in closed form, and the micro-batches a stage holds.

A pipeline has P stages; the first and the last may differ from the P - 2 middle ones (embedding, head, uneven layers).
Stage times are seconds per micro-batch of the whole stage, all v chunks; chunks share a stage's time evenly. `hop_s` is
the exposed point-to-point time of each crossing between stages; a crossing delays the receiver and does not keep the
sender busy. With P = 1 the stage is given as `first`.

The makespan is the longest path through the dependency graph of the schedule. Each closed form is the maximum over a
few families of such paths: fill, steady state on one stage, drain, each with detours; loops over several stages, which
matter when hops are slow. It is therefore a lower bound, and close. Orders and oracle: `costmodels.schedule`.

Exactness against the oracle: GPipe exact; otherwise see `one_f_one_b`.

Legend: stages are 0, 1, M = P - 2 and L = P - 1, the only ones that can be critical; j stage, s = f + b, W_j warm-up
forwards of stage j. A stage's work is counted in chunks: seconds here are v times too large until the final division.
"""

from __future__ import annotations

from costmodels._jit import jit


@jit
def _warm_up(stage, P, v):
    """Forward chunks a stage runs before it alternates (Megatron's count, before it is capped by m v)."""
    if v == 1:
        return P - 1 - stage
    return 2 * (P - 1 - stage) + (v - 1) * P


@jit
def _sums(P, first, mid, last):
    """Sums of a quantity over stages 0..j for j = 0, 1, M, L."""
    to_mid = first + (P - 2) * mid
    return first, first + mid, to_mid, to_mid + last


@jit
def _reach(P, v, forward, mid, last, back, back_mid, back_last, hop_s):
    """Longest way from the first forward to the first backward of stages 0, 1, M, L, plus backward 0..j - 1.

    A way warms up on the slowest stage it meets, turns at a stage l >= j and comes back through the backwards. With
    forward and backward exchanged it is the longest drain. For stage j subtract backward 0..j and j hops.
    """
    f0, f1, fm, fl = _sums(P, forward, mid, last)
    b0, b1, bm, bl = _sums(P, back, back_mid, back_last)
    slow = max(forward, mid)
    hop = 2.0 * hop_s * v
    to_l = fl + bl + _warm_up(P - 1, P, v) * max(slow, last) + (P - 1) * hop
    if v > 1:  # the first micro-batch through every chunk before it turns
        to_l = max(to_l, v * fl + bl + (v * P - 1 + P - 1) * v * hop_s)
    to_m = max(to_l, fm + bm + _warm_up(P - 2, P, v) * slow + (P - 2) * hop)
    to_1 = max(to_m, f1 + b1 + _warm_up(1, P, v) * slow + hop)
    to_0 = max(to_1 if P > 2 else to_m, f0 + b0 + _warm_up(0, P, v) * forward)
    return to_0, to_1, to_m, to_l


@jit
def _wrap_reach(P, v, forward, mid, last, steady_mid, steady_last, hop_s):
    """Longest way to stage 0 that is steady on M or L for one group of micro-batches and wraps to the next chunk.

    It ends with the forward of index (v + 1) P on stage 0, two steps after the one `_reach` leads to.
    """
    one_pass = forward + (P - 2) * mid + last
    slow = max(forward, mid)
    laps = (v - 1) * (one_pass + P * hop_s * v)  # the way here: round all chunks, or waiting on one stage
    way = max(laps, (v - 1) * P * max(slow, last)) + P * steady_last
    if P > 2:
        way = max(way, max(laps, (v - 1) * P * slow) + 2 * slow + (P - 2) * steady_mid)
    return one_pass + forward + P * hop_s * v + way


@jit
def _loops(units, depth, v, span, own, tail, hop_s):
    """`units` steady steps on loops over `depth` stages whose times sum to `span`; `tail` pays a rest of one stage."""
    if v == 1:
        times = units // depth
        rest = units - times * depth
        return times * (span + 2 * (depth - 1) * hop_s) + (own + (rest - 1) * (tail + 2 * hop_s) if rest > 0 else 0.0)
    step = 2 * depth - 1
    times = units // step
    return times * (span + 2 * (depth - 1) * hop_s * v) + (units - times * step) * own


@jit
def _steady_last(units, P, v, first, mid, last, hop_s):
    """Longest `units` steady steps that start and end on stage L."""
    best = units * last
    if hop_s > 0.0:
        span = (P - 2) * mid + last
        best = max(best, _loops(units, P, v, first + span, last, mid, hop_s))
        if P > 2:
            best = max(best, _loops(units, P - 1, v, span, last, mid, hop_s))
    return best


@jit
def _steady_mid(units, P, v, first, mid, hop_s):
    """Longest `units` steady steps that start and end on stage M."""
    best = units * mid
    if hop_s > 0.0:
        span = (P - 2) * mid
        best = max(best, _loops(units, P - 1, v, first + span, mid, mid, hop_s))
        if P > 3:
            best = max(best, _loops(units, P - 2, v, span, mid, mid, hop_s))
    return best


@jit
def _few_micro_batches(P, v, m, f, b, mid_f, mid_b, last_f, last_b, hop_s):
    """Longest path when stages 0..all_warm run every forward before any backward (m up to P)."""
    all_warm = min(P - 1, P - m if v == 1 else ((v + 1) * P - 1 - m * v) // 2)
    if all_warm < 0:
        return 0.0
    slow_f, slow_b = f, b
    if all_warm > 0 and P > 2:
        slow_f, slow_b = max(f, mid_f), max(b, mid_b)
    best = 0.0
    for turn in (all_warm, min(all_warm + 1, P - 1), P - 2, P - 1):
        way = f + b + min(turn, P - 2) * (mid_f + mid_b) + (last_f + last_b if turn == P - 1 else 0.0)
        both = min(_warm_up(turn, P, v), m * v - 1)
        way += both * (slow_f + slow_b) + (m * v - 1 - both) * max(slow_f, slow_b) + 2 * turn * hop_s * v
        best = max(best, way)
    if v > 1 and hop_s > 0.0:  # one direction round all chunks, the other waiting on the slowest stage
        forward, backward = f + (P - 2) * mid_f + last_f, b + (P - 2) * mid_b + last_b
        way = max(v * forward + backward + (m * v - 1) * slow_b, v * backward + forward + (m * v - 1) * slow_f)
        best = max(best, way + ((v + 1) * P - 2) * hop_s * v)
    return best


@jit
def _laps(P, v, m, forward, backward, first, slow_first, mid, slow_mid, last, hop_s):
    """Longest interleaved path that goes round all chunks: one trip each way, and v - 1 laps per further group.

    Between laps it is steady for P steps per group: on 0 or L, or on M or loops over half of the stages. The last steps
    may wait on the longer pass of stage 0 (`slow_first`) or of a middle stage (`slow_mid`).
    """
    hop = v * hop_s
    lap = max(P * last, max(forward, backward) + P * hop)
    groups = max(1, m // P)
    way = v * (forward + backward) + 2 * (v * P - 1) * hop + (groups - 1) * (v - 1) * lap
    steady = max((m - 1) * last, (groups - 1) * P * max(first, last) + (min(m, P) - 1) * slow_first)
    if P > 2 and m > 3:
        steady = max(steady, (m - 3) * mid + 2 * slow_mid)
        if P > 4:
            depth, times = (P + 1) // 2, (m - 3) // P
            loop = (P + 1 - depth) * mid + 2 * (depth - 1) * hop
            steady = max(steady, times * loop + (m - 3 - times * P) * mid + 2 * slow_mid)
    return way + steady


@jit
def _longest_path(P, v, m, f, b, mid_f, mid_b, last_f, last_b, hop_s):
    """Longest path for P >= 2, times v."""
    first, mid, last = f + b, mid_f + mid_b, last_f + last_b
    steps = m * v - 1
    sum_1, hop = first + mid, hop_s * v
    sum_m = first + (P - 2) * mid
    mv = m * v
    # Fill on the way to a stage, all its work, drain.
    best = max(mv * first, sum_m + mv * last + 2 * (P - 1) * hop)
    best = max(best, sum_m - mid + mv * mid + 2 * (P - 2) * hop)
    fill_0, fill_1, fill_m, fill_l = _reach(P, v, f, mid_f, last_f, b, mid_b, last_b, hop_s)
    drain_0, drain_1, drain_m, drain_l = _reach(P, v, b, mid_b, last_b, f, mid_f, last_f, hop_s)
    units = steps - _warm_up(P - 1, P, v)
    if units >= 0:
        best = max(best, fill_l + drain_l - sum_m - last - 2 * (P - 1) * hop + _steady_last(units, P, v, first, mid, last, hop_s))
    units = steps - _warm_up(P - 2, P, v)
    if units >= 1 and P > 2:
        best = max(best, fill_m + drain_m - sum_m - 2 * (P - 2) * hop + _steady_mid(units, P, v, first, mid, hop_s))
    units = steps - _warm_up(1, P, v)
    if units >= 1 and P > 3:
        steady = units * mid
        if hop_s > 0.0:
            steady = max(steady, _loops(units, 2, v, sum_1, mid, mid, hop_s))
        best = max(best, fill_1 + drain_1 - sum_1 - 2 * hop + steady)
    units = steps - _warm_up(0, P, v)
    if units >= 1:
        best = max(best, fill_0 + drain_0 - first + units * first)
        if v > 1 and m >= 2 * P and units >= 4:
            fill_0 = max(fill_0, _wrap_reach(P, v, f, mid_f, last_f, mid, last, hop_s) - 2 * first + b)
            drain_0 = max(drain_0, _wrap_reach(P, v, b, mid_b, last_b, mid, last, hop_s) - 2 * first + f)
            best = max(best, fill_0 + drain_0 - first + units * first)
    if m <= P:
        best = max(best, _few_micro_batches(P, v, m, f, b, mid_f, mid_b, last_f, last_b, hop_s))
    if v > 1 and hop_s > 0.0:
        forward, backward = f + (P - 2) * mid_f + last_f, b + (P - 2) * mid_b + last_b
        best = max(best, _laps(P, v, m, forward, backward, first, max(f, b), mid, max(mid_f, mid_b), last, hop_s))
    return best


@jit
def one_f_one_b(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """1F1B (v = 1) or Megatron's interleaved 1F1B (v > 1): (total_s, steady_s, bubble_s).

    steady = m x slowest stage; bubble = total - steady and holds fill, drain and exposed hops (call with hop_s = 0 to
    part them). With equal stages and no hops the bubble is (P - 1) s / v. Interleaving needs m to be a multiple of P.

    Against the simulator on 10,800 random pipelines (P to 16, v to 4, ends 0.3 to 3 times a middle stage): without hops
    exact for v = 1 but for a few cases of m < P, at most 0.3 % low for v > 1; with hops up to 20 % of a stage within 1 %
    but for 3 cases, the worst 1.3 % low.

    >>> one_f_one_b(4, 1, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (33.0, 24.0, 9.0)
    >>> one_f_one_b(4, 2, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (28.5, 24.0, 4.5)
    """
    first, last = first_fwd + first_bwd, last_fwd + last_bwd
    if P == 1:
        return m * first, m * first, 0.0
    steady = m * max(first, last)
    if P == 2:  # no middle stage: stage M is stage 0
        mid_fwd, mid_bwd = first_fwd, first_bwd
    else:
        steady = max(steady, m * (mid_fwd + mid_bwd))
    total = _longest_path(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s) / v
    return total, steady, total - steady


@jit
def one_f_one_b_with_ends(
    P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, embed_fwd, embed_bwd, head_fwd, head_bwd, hop_s
):
    """`one_f_one_b` where the embedding sits in chunk 0 of the first stage and the head in chunk v - 1 of the last.

    Stage times leave them out; their own times are given apart. With v > 1 a chunk that is longer than every chunk of
    the slowest stage holds all stages up, once per micro-batch, even where its stage as a whole is short; moving to
    that stage and back hides about 1.5 chunks per group of P micro-batches. This is an estimate, not a path: see
    `tests/pipeline`.

    >>> one_f_one_b_with_ends(4, 1, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0, 0.0, 0.5, 1.0, 0.0)[0]
    45.0
    >>> times = (1.0, 2.0, 1.0, 2.0, 0.5, 1.0, 0.0, 0.0, 0.5, 1.0, 0.0)  # half a stage of layers, and the head
    >>> one_f_one_b_with_ends(4, 2, 64, *times)[0] > one_f_one_b_with_ends(4, 1, 64, *times)[0]
    True
    """
    total, steady, bubble = one_f_one_b(
        P, v, m, first_fwd + embed_fwd, first_bwd + embed_bwd, mid_fwd, mid_bwd, last_fwd + head_fwd, last_bwd + head_bwd, hop_s
    )
    if v == 1 or P == 1:
        return total, steady, bubble
    first, last = first_fwd + first_bwd, last_fwd + last_bwd
    slowest = max(first, last)
    if P > 2:
        slowest = max(slowest, mid_fwd + mid_bwd)
    hidden = 1.5 / P * slowest / v
    extra_first = max(0.0, (first - slowest) / v + embed_fwd + embed_bwd - hidden * (slowest - first) / slowest)
    extra_last = max(0.0, (last - slowest) / v + head_fwd + head_bwd - hidden * (slowest - last) / slowest)
    plain, _, _ = one_f_one_b(P, v, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s)
    total = max(total, plain + m * (extra_first + extra_last))
    return total, steady, total - steady


@jit
def gpipe(P, m, first_fwd, first_bwd, mid_fwd, mid_bwd, last_fwd, last_bwd, hop_s):
    """GPipe: (total_s, steady_s, bubble_s), exact. Forward and backward are two flow lines, one after the other.

    total = sum f + (m - 1) max f + sum b + (m - 1) max b + 2 (P - 1) hop; steady is m times the slowest stage.

    >>> gpipe(4, 8, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 0.0)
    (33.0, 24.0, 9.0)
    """
    if P == 1:
        return m * (first_fwd + first_bwd), m * (first_fwd + first_bwd), 0.0
    slow_f, slow_b = max(first_fwd, last_fwd), max(first_bwd, last_bwd)
    slow = max(first_fwd + first_bwd, last_fwd + last_bwd)
    if P > 2:
        slow_f, slow_b, slow = max(slow_f, mid_fwd), max(slow_b, mid_bwd), max(slow, mid_fwd + mid_bwd)
    one_pass = first_fwd + first_bwd + (P - 2) * (mid_fwd + mid_bwd) + last_fwd + last_bwd
    total = one_pass + (m - 1) * (slow_f + slow_b) + 2 * (P - 1) * hop_s
    return total, m * slow, total - m * slow


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
