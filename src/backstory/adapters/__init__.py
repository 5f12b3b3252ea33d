"""Adapters: the history of other frameworks' agents, kept in a backstory store.

    from backstory.adapters.openai_agents import BackstorySession

Each module needs its framework: `pip install 'backstory[openai_agents]'`.
They use the public interface, `wire`, `log.items` and `log.arguments`; `claude` also `log.erasure`
and `transcripts.claude_code`; `items` also `log.checks`; `stores` also `storage.targets`.
"""
