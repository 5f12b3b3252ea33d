"""Adapters: the history of other frameworks' agents, kept in a backstory store.

    from backstory.adapters.openai_agents import BackstorySession

One module per framework, which needs that framework installed: `pip install 'backstory[openai_agents]'`.
They use nothing but what is public in backstory.
"""
