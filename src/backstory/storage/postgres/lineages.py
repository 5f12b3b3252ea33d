"""The statements that follow an agent and its ancestors: what is live, what is inherited, what was when.

Each stays within one place, and looks up one agent or one event at a time by its key.
"""

from backstory.storage.walks import BLOCK, RUN

# An agent that was deleted and created again under its key has the same place and number: compare the birth.
IS_AGENT = "place = %(place)s::bigint AND no = %(no)s AND created_at = %(born)s AND deleted IS NULL"
HEAD = f"SELECT head FROM backstory.agents WHERE {IS_AGENT}"

# Each step goes to the newest event with a base at or below `next`. What lies between is live, and the walk
# continues at the base; if there is no such event, it continues in the parent. UNION drops a step that was
# taken before, so in a damaged store the walk ends instead of running for ever.
# OFFSET 0, here and in `rows`, makes the planner look up one agent or one range at a time by its key:
# it cannot know how few of a session's rows are wanted, and would read them all.
# An index scan reads whole pages of the range. If jumps are close together, each would be read a hundred
# times, so the statement looks nearby first.
JUMP = """
    SELECT e.seq, e.base FROM backstory.events e
    WHERE e.place = %(place)s::bigint AND e.agent = a.no AND e.base IS NOT NULL
        AND e.seq > {low} AND e.seq <= {high}
    ORDER BY e.seq DESC LIMIT 1"""
WALK = f"""
    WITH RECURSIVE
    here AS ({HEAD}),
    walk (no, low, high, base, next, next_no, run) AS (
        SELECT NULL::int, 1, 0, NULL::int, coalesce(%(at)s::int, head), %(start)s::int, 0 FROM here
        UNION
        SELECT a.no, coalesce(j.seq, a.fork_seq + 1), walk.next, j.base,
            CASE WHEN j.seq IS NULL THEN least(walk.next, a.fork_seq) ELSE j.base END,
            CASE WHEN j.seq IS NULL THEN a.parent ELSE a.no END,
            CASE WHEN j.seq IS NULL THEN 0 ELSE walk.run + 1 END
        FROM walk
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM backstory.agents
            WHERE place = %(place)s::bigint AND no = walk.next_no OFFSET 0) a
        LEFT JOIN LATERAL (
            ({JUMP.format(low="greatest(a.fork_seq, walk.next - 16)", high="walk.next")})
            UNION ALL
            ({JUMP.format(low="a.fork_seq", high="walk.next - 16")})
            LIMIT 1) j ON true
        WHERE walk.next > 0 AND walk.run < {RUN})
    SELECT walk.*, here.head FROM here, walk"""
JUMPS = f"""
    SELECT seq, base FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(start)s::int AND base IS NOT NULL AND seq <= %(at)s::int
    ORDER BY seq DESC LIMIT {BLOCK}"""

LINEAGE = f"""
    WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
        SELECT no, fork_seq + 1, head, parent, fork_seq FROM backstory.agents
        WHERE {IS_AGENT}
        UNION
        SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq FROM backstory.agents
            WHERE place = %(place)s::bigint AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0)
    SELECT no, low, high, NULL, fork_seq FROM line"""

# Times never decrease in a lineage: find the agent that wrote at that time, then bisect.
POSITION_AT = """
    WITH RECURSIVE
    line (no, parent, fork_seq, high, created_at) AS (
        SELECT no, parent, fork_seq, head, created_at FROM backstory.agents
        WHERE place = %(place)s::bigint AND no = %(no)s
        UNION
        SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at
        FROM line
        CROSS JOIN LATERAL (
            SELECT no, parent, fork_seq, created_at FROM backstory.agents
            WHERE place = %(place)s::bigint AND no = line.parent OFFSET 0) a
        WHERE line.fork_seq > 0 AND line.created_at > %(moment)s),
    halves (no, low, high) AS (
        SELECT no, fork_seq, high FROM line WHERE created_at <= %(moment)s
        UNION
        SELECT h.no,
            CASE WHEN e.created_at <= %(moment)s THEN (h.low + h.high + 1) / 2 ELSE h.low END,
            CASE WHEN e.created_at <= %(moment)s THEN h.high ELSE (h.low + h.high + 1) / 2 - 1 END
        FROM halves h
        LEFT JOIN backstory.events e ON e.place = %(place)s::bigint AND e.agent = h.no
            AND e.seq = (h.low + h.high + 1) / 2
        WHERE h.low < h.high)
    SELECT low FROM halves WHERE low = high"""
