"""The page's templates become calls before they are shipped."""

import pytest

from tools.templates import compiled

CASES = {
    "html`<p>text</p>`": 'html("p", null, "text")',
    'html`<p class="hint" title="x">a ${b} c</p>`': 'html("p.hint", { "title": "x" }, "a ", (b), " c")',
    "html`<p class=${name}>x</p>`": 'html("p", { "class": name }, "x")',
    "html`<input disabled value=${a} />`": 'html("input", { "disabled": true, "value": a })',
    "html`<a>1</a><b>2</b>`": '[html("a", null, "1"), html("b", null, "2")]',
    "html`<${Place} seq=${1}>here<//>`": 'html(Place, { "seq": 1 }, "here")',
    "html`<ul>\n${all.map((one) => html`<li>${one}</li>`)}\n</ul>`": (
        'html("ul", null, (all.map((one) => html("li", null, (one)))))'
    ),
    "const a = `html ${b ? `<${c}>` : '`'}`;": "const a = `html ${b ? `<${c}>` : '`'}`;",
    "const r = /[`}/]\\/html`/.test(x); // html`<p>`": "const r = /[`}/]\\/html`/.test(x); // html`<p>`",
    "x = a / b; y = html`<i></i>`; /* } */": 'x = a / b; y = html("i", null); /* } */',
}


@pytest.mark.parametrize("source", CASES)
def test_a_template_is_a_call(source):
    assert compiled(source) == CASES[source]


@pytest.mark.parametrize("source", ["}", "html`<p ='x'></p>`"])
def test_what_is_not_understood_is_not_shipped(source):
    with pytest.raises(AssertionError):
        compiled(source)
