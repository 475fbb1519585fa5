"""The YAML reader: values, line numbers, and what it refuses."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.yaml_lines import MAX_DEPTH, MAX_NODES, dotted, dump_yaml, parse


def fails(text):
    with pytest.raises(InputError) as caught:
        parse(text, "f.yaml")
    return caught.value.problems[0]


def test_numbers_follow_yaml_1_2():
    data = parse("a: 300e9\nb: 1_000\nc: 010\nd: 1:30\ne: '8'\nf: -.5\ng: 0x1F\nh: .inf\ni: 1e-3\nj: +7").data
    assert data == {
        "a": 3e11, "b": "1_000", "c": 10, "d": "1:30", "e": "8", "f": -0.5, "g": 31, "h": math.inf, "i": 0.001, "j": 7,
    }  # fmt: skip


def test_words():
    data = parse("a: no\nb: True\nc: ~\nd:\ne: null\nf: 'true'").data
    assert data == {"a": "no", "b": True, "c": None, "d": None, "e": None, "f": "true"}


def test_lines_of_nested_keys():
    document = parse("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n\n# remark\nd: {e: 1,\n  f: 2}\n")
    assert document.line_of(("a", "b")) == 2
    assert document.line_of(("a", "c", 0)) == 4
    assert document.line_of(("a", "c", 1, "y")) == 5
    assert document.line_of(("d", "f")) == 9
    assert document.line_of(("a", "c", 9)) == 3, "an unknown key has the line of its parent"


def test_json_has_lines_too():
    document = parse('{\n "a": 1,\n "b": {\n  "c": [1, 2]}}')
    assert document.data == {"a": 1, "b": {"c": [1, 2]}}
    assert document.line_of(("b", "c")) == 4


def test_json_with_tabs_keeps_its_values():
    assert parse('{\n\t"a": 1\n}').data == {"a": 1}


def test_duplicate_keys_name_both_lines():
    problem = fails("a: 1\nb:\n  c: 1\n  c: 2\n")
    assert (problem.line, problem.key) == (4, "b.c") and "line 3" in problem.message
    assert "duplicate" in fails('{"a": 1, "a": 2}').message


def test_aliases_share_values_but_not_without_end():
    assert parse("a: &x {p: 1}\nb: *x").data == {"a": {"p": 1}, "b": {"p": 1}}
    assert "itself" in fails("a: &a [*a]\n").message
    assert "nothing before it" in fails("a: *b").message


def test_merge_keys_do_not_override():
    assert parse("a: &x {p: 1, q: 2}\nb:\n  <<: *x\n  q: 3").data["b"] == {"p": 1, "q": 3}
    assert parse("a: &x {p: 1}\nb: &y {p: 2, r: 5}\nc: {<<: [*x, *y]}").data["c"] == {"p": 1, "r": 5}
    assert "mapping" in fails("a: {<<: 3}").message


def test_alias_bomb_is_refused_without_expanding():
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12))
    assert f"{MAX_NODES:,}" in fails(bomb).message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 5, 500, 50_000])
def test_deep_nesting_is_refused(opening, depth):
    problem = fails(opening * depth)
    assert "nested" in problem.message or "not valid YAML" in problem.message


def test_deep_json_is_refused():
    assert "nested" in fails("[" * 2000 + "]" * 2000).message
    assert "nested" in fails("[" * 200_000 + "]" * 200_000).message
    assert "nested" in fails('{"a":' * 60 + "1" + "}" * 60).message


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system ['true']", "!!python/name:os.system", "!x 1", "!!binary aGk=", "!!set {a}"]
)
def test_tags_are_refused(tag):
    assert "tag" in fails(f"a: {tag}\n").message


def test_two_documents_are_refused():
    assert "more than one" in fails("a: 1\n---\nb: 2\n").message


def test_control_characters_are_refused():
    assert "control character" in fails('a: "\\x1b[31mred"').message
    assert "control character" in fails('{"a": "\\ud800"}').message
    assert "control character" in fails('{"\\u202e": 1}').message
    assert fails("a: \x07").message


@pytest.mark.parametrize(
    "text", ["[1,2", "a: [", "a: b: c", "\tx: 1", "a: 'b", "@x", "%YAML 9\n---\na", "? {a: 1}\n: 2", "{[1]: 2}"]
)
def test_broken_text_names_its_line(text):
    problem = fails(text)
    assert problem.line >= 1 and problem.message


def test_empty_text_is_nothing():
    assert parse("").data is None and parse("# only a remark\n").data is None


def test_dotted():
    assert dotted(("a", 0, "b")) == "a[0].b" and dotted(()) == ""


words = st.text(st.characters(blacklist_categories=["Cc", "Cs", "Cf", "Zl", "Zp"]), max_size=12)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(allow_nan=False) | words
    | st.sampled_from(["1e3", "no", "0o17", "1_000", "~", "", "1:30", "- a", "300e9", ".inf", "=", "<<"]),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(words.filter(lambda k: k != "<<"), children, max_size=4),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(words.filter(lambda k: k != "<<"), plain, max_size=4))
def test_dumped_values_read_back(value):
    assert parse(dump_yaml(value)).data == (value or {})
    assert parse(json.dumps(value)).data == value
