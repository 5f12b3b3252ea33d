"""The page of a session."""

from backstory.present.html import build_page


def test_a_fork_of_a_deleted_agent_is_in_the_list_of_agents(store):
    main = store.start("main")
    middle = main.fork("middle")
    middle.fork("leaf")
    store.delete(middle)
    page = build_page(store.resolve("main"), store.agents())
    navigation = page[page.index("<nav>") : page.index("</nav>")]
    assert ">main</a>" in navigation
    assert ">leaf</a>" in navigation
