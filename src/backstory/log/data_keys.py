"""The keys of an event's data that several modules use. docs/log-format.md lists all keys; others
belong to the caller."""

# Of a rewind or a jump.
TARGET = "target_message_id"  # the position whose context it restores
UNDO = "undo"  # True if undo wrote it
REDO = "redo"  # True if redo wrote it

# Of messages.
NATIVE = "native"  # the provider's own form; the first event of an answer has that of all its parts
ANSWER = "answer"  # the provider's name for the answer that an event is part of
REQUEST = "request"  # the digest of the request that was answered
RESPONSE = "response"  # the provider's id of the answer, its stop reason and other facts
REPLACE = "replace"  # of a system message: True if it replaces all system messages before it
ITEM = "item"  # the form of a framework's item

# Of the events of a compaction.
SUMMARY = "summary"  # of its clear: the position of the summary
COMPACTED = "compacted"  # of the summary: a description of what it replaces
COPY = "copy_of"  # of a copy: the position that it was made from

# Of an erased event: when and why, and the digests of its content and data.
ERASED = "erased"
