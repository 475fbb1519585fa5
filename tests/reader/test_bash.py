"""The static bash evaluator against what bash itself does; values as bash 5.2 gives them, but that files count as present."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.reader import bash_words as w
from autotune.reader.bash_eval import Interpreter
from autotune.reader.bash_expand import Expander, Scope

EXPANSIONS = [
    ("$A", ["1", "2"]), ('"$A"', ["1 2"]), ("x${L[@]}y", ["xa", "b", "cy"]), ('"${L[@]}"', ["a b", "c"]), ('"${E[@]}"', []), ("${Z:-d}", ["d"]),
    ('"${Z:-q r}"', ["q r"]), ("${A+set}", ["set"]), ("${Z+set}", []), ("$((N+1))", ["9"]), ("$((64/N))", ["8"]), ("$(( (N > 1) ? 7 : 0 ))", ["7"]),
    ("$((2**10 % 7))", ["2"]), ("$((-7/2))", ["-3"]), ("$((010))", ["8"]), ("$((0x1f))", ["31"]), ("${#L[@]}", ["2"]), ("${#F}", ["15"]),
    ("${F%.*}", ["dir/name.tar"]), ("${F%%.*}", ["dir/name"]), ("${F#*/}", ["name.tar.gz"]), ("${F##*.}", ["gz"]), ("${F/a/X}", ["dir/nXme.tar.gz"]),
    ("${F//a/X}", ["dir/nXme.tXr.gz"]), ("${F^^}", ["DIR/NAME.TAR.GZ"]), ("${U,,}", ["abc"]), ("${F:4:4}", ["name"]), ("${F: -2}", ["gz"]),
    ("'$A'", ["$A"]), ('"\\$A"', ["$A"]), ("$'a\\tb'", ["a\tb"]), ("${L[1]}", ["c"]), ("${T[k]}", ["v"]), ("${!R}", ["8"]), ("a\\ b", ["a b"]),
    ("${A// /_}", ["1_2"]), ('--x="$A"', ["--x=1 2"]), ("${N}GB", ["8GB"]), ('"${L[*]}"', ["a b c"]), ("${L[@]:1}", ["c"]), ("$#", ["0"]),
]  # fmt: skip


@pytest.mark.parametrize(("word", "fields"), EXPANSIONS, ids=lambda x: x if isinstance(x, str) else "")
def test_expansion(word, fields):
    scope = Scope({"A": "1 2", "L": ["a b", "c"], "E": [], "N": "8", "F": "dir/name.tar.gz", "U": "ABC", "T": {"k": "v"}, "R": "N"})
    assert Expander(scope, lambda _: "").fields(word) == fields


def variables(script, settings=None, arguments=()):
    shell = Interpreter(Path("job.sh"), settings or {}, list(arguments))
    shell.run(script)
    return shell.scope.values


STATEMENTS = [
    ("for i in 1 2 3; do X=$X$i; done", "123"), ("for ((i=0; i<3; i++)); do X=$X$i; done", "012"), ("for i in {3..1}; do X=$X$i; done", "321"),
    ("i=0; while [ $i -lt 4 ]; do i=$((i+1)); if [ $i -eq 2 ]; then continue; fi; X=$X$i; done", "134"), ("i=5; until [[ $i == 3 ]]; do ((i--)); done; X=$i", "3"),
    ("case abc in a*) X=1;; *) X=2;; esac", "1"), ("case $Q in '') X=empty;; *) X=full;; esac", "empty"), ("f() { X=$2; }; f a b", "b"),
    ("f() { local Y=1; return 0; X=no; }; X=yes; f", "yes"), ("X=a; X+=b", "ab"), ("A=(1); A+=(2 3); X=${#A[@]}${A[2]}", "33"),
    ("declare -A M=([a]=1 [b]=2); X=${M[b]}", "2"), ("f() { local -n r=$1; X=${r[1]}; }; B=(p q); f B", "q"), ("IFS=, read -r P X <<< '1,2'", "2"),
    ("read -ra A <<< 'x y z'; X=${A[2]}", "z"), ("[ -z \"$Q\" ] && X=1 || X=2", "1"), ("[ 1 -gt 2 ] || X=or", "or"), ("X=$(echo a b | tr ' ' -)", "a-b"),
    ("X=$(basename /a/b.sh .sh)", "b"), ("X=$(dirname /a/b/c)", "/a/b"), ("X=$(seq 1 3 | wc -l)", "3"), ("X=$(echo k=v=w | cut -d= -f2)", "v"),
    ("X=$(printf '%03d' 7)", "007"), ("X=$(( $(echo 6) * 7 ))", "42"), ("cat <<E > f\nval $((1+1))\nE\nX=$(cat f)", "val 2"),
    ("cat <<'E' > f\n$A\nE\nX=$(cat f)", "$A"), ("eval \"X=1; Y=2\"", "1"), ("X=1; (X=2)", "1"), ("X=1; { X=2; }", "2"), ("set -- a b c; shift; X=$1$#", "b2"),
    ("X=1; unset X; X=${X:-gone}", "gone"), ("X=${Y:=5}", "5"), ("if ! false; then X=not; fi", "not"), ("[[ 'a b' =~ ^a ]] && X=re", "re"),
    ("[[ abc == *b* ]] && X=glob", "glob"), ("let X=3*4", "12"), ("printf -v X '%s-%s' a b", "a-b"), ("Y=2; X=$Y Z=$Y true; X=$X", ""),
    ("if [ -f nothing ]; then X=there; fi", "there"), ("while read -r l; do X=$l; done <<< $'p\\nq'", "q"), ("export X=1 Y=2", "1"),
    ("trap 'X=no' EXIT; X=yes", "yes"), ("x=1; if [ $x = 1 ] && { [ 2 -gt 1 ] || exit; }; then X=ok; fi", "ok"), ("for a in \"$@\"; do X=$X$a; done", "pq"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "value"), STATEMENTS, ids=lambda s: s[:30])
def test_statement(script, value):
    got = variables(script, arguments=("p", "q")).get("X", "")
    assert w.plain(got) == value


def test_what_cannot_be_known_keeps_its_name():
    v = variables("N=$SLURM_NNODES\nG=$(nvidia-smi -L | wc -l)\nW=$((N*G))\nD=$(date)\nFLAG=\"--nnodes $N\"")
    assert w.names_missing(v["W"]) == ["SLURM_NNODES", "GPUS_PER_NODE"] or w.names_missing(v["W"]) == ["SLURM_NNODES"]
    assert w.names_missing(v["FLAG"]) == ["SLURM_NNODES"]
    assert w.names_missing(v["D"]) == ["D"]
    assert variables("G=$(nvidia-smi -L | wc -l)", {"GPUS_PER_NODE": "4"})["G"] == "4"


def test_settings_win_and_may_still_change_form():
    assert variables("TP=2\nX=${TP}", {"TP": "8"})["X"] == "8"
    assert variables("export GPU=${GPU,,}\nX=$GPU", {"GPU": "H100"})["X"] == "h100"
    assert variables("X=${X:-1}", {"X": "5"})["X"] == "5"


def test_directives_become_slurm_variables():
    assert variables("#SBATCH -N 4 --gpus-per-node=a100:8\nX=$((SLURM_NNODES*SLURM_GPUS_PER_NODE))")["X"] == "32"


def test_a_stop_is_reported_and_read_past():
    shell = Interpreter(Path("job.sh"), {}, [])
    state = shell.run("if [ -z \"$IMAGE\" ]; then echo no; exit 3; fi\ntorchrun a.py")
    assert state.stopped == "exit 3" and not state.launches
    shell = Interpreter(Path("job.sh"), {}, [], ignore_exit=True)
    assert len(shell.run("if [ -z \"$IMAGE\" ]; then echo no; exit 3; fi\ntorchrun a.py").launches) == 1
