"""The page's signals: who reads a value learns that it changed, once, and only if it did."""

import pytest

import backstory
from tools.site import served

CASES = {
    "an effect runs at once and when what it read changes": (
        """const a = signal(1); effect(() => say(a.value)); a.value = 2; a.value = 2; a.value = 3;""",
        [1, 2, 3],
    ),
    "an effect that was ended runs no more": (
        """const a = signal(1); const end = effect(() => say(a.value)); end(); a.value = 2;""",
        [1],
    ),
    "a computed value is made when it is asked for and kept until something changes": (
        """const a = signal(1); const b = computed(() => { say("made"); return a.value * 2; });
           say("first"); b.value; b.value; a.value = 5; say(b.value); say(b.peek());""",
        ["first", "made", "made", 10, 10],
    ),
    "an effect runs once for two ways to the same change and never sees one without the other": (
        """const a = signal(1); const b = computed(() => a.value + 1); const c = computed(() => a.value * 10);
           effect(() => say(`${b.value} ${c.value}`)); a.value = 2;""",
        ["2 10", "3 20"],
    ),
    "an effect of a computed value that stays the same does not run": (
        """const a = signal(1); const odd = computed(() => a.value % 2 === 1);
           effect(() => say(odd.value)); a.value = 3; a.value = 4; a.value = 6; a.value = 7;""",
        [True, False, True],
    ),
    "what is read no more changes nothing": (
        """const here = signal(true); const a = signal("a"); const b = signal("b");
           effect(() => say(here.value ? a.value : b.value));
           here.value = false; a.value = "x"; b.value = "y";""",
        ["a", "b", "y"],
    ),
    "a batch runs its effects once at its end, the outermost of several": (
        """const a = signal(1); const b = signal(1); effect(() => say(a.value + b.value));
           batch(() => { a.value = 2; batch(() => { b.value = 3; }); say("inside"); });""",
        [2, "inside", 5],
    ),
    "an effect may set what another reads": (
        """const a = signal(1); const b = signal(0); effect(() => { b.value = a.value * 2; });
           effect(() => say(b.value)); a.value = 4;""",
        [2, 8],
    ),
    "peek is not read": (
        """const a = signal(1); const b = signal(1); effect(() => say(a.value + b.peek()));
           b.value = 5; a.value = 2;""",
        [2, 7],
    ),
    "an effect within an effect reads for itself": (
        """const a = signal(1); const b = signal(1);
           effect(() => { say(`outer ${a.value}`); effect(() => say(`inner ${b.value}`)); }); b.value = 2;""",
        ["outer 1", "inner 1", "inner 2"],
    ),
    "a computed value that fails is made again each time, until it does not": (
        """const a = signal(1);
           const b = computed(() => { if (a.value === 2) throw new Error("no"); return a.value; });
           say(b.value); a.value = 2;
           for (const again of [1, 2]) try { say(b.value); } catch (error) { say(error.message); }
           a.value = 3; say(b.value);""",
        [1, "no", "no", 3],
    ),
    "one that fails is told to whoever set it, and the others still work": (
        """const a = signal(1); effect(() => { if (a.value === 2) throw new Error("no"); say(a.value); });
           try { a.value = 2; } catch (error) { say(error.message); }
           const b = signal(1); effect(() => say(b.value)); b.value = 7; a.value = 3;""",
        [1, "no", 1, 7, 3],
    ),
}


@pytest.fixture(scope="module")
def page(browser):
    with backstory.open(":memory:") as store, served(store) as site:
        page = browser.new_page()
        page.goto(site.address)
        page.locator("main").wait_for()
        yield page


@pytest.mark.parametrize("case", CASES)
def test_signals(page, case):
    script, said = CASES[case]
    run = f"""() => {{ const {{ signal, computed, effect, batch }} = window.backstory; const said = [];
        const say = (what) => said.push(what); {script} return said; }}"""
    assert page.evaluate(run) == said
