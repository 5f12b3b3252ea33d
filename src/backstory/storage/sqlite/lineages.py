"""The statements that follow an agent and its ancestors: what is live, what is inherited, what was when."""

from backstory.storage.walks import BLOCK, RUN

HEAD = """max(a.fork_seq, coalesce(
    (SELECT max(e.id) & 4294967295 FROM events e
     WHERE e.id BETWEEN a.no << 32 AND (a.no << 32) + 4294967295), 0))"""

# Each step goes to the newest event with a base at or below `next`. What lies between is live, and the walk
# continues at the base; if there is no such event, it continues in the parent. UNION drops a step that was
# taken before, so in a damaged store the walk ends instead of running for ever.
WALK = f"""
    WITH RECURSIVE
    here (head) AS MATERIALIZED (
        SELECT {HEAD} FROM agents a WHERE a.no = :no AND a.deleted IS NULL),
    walk (no, low, high, base, next, next_no, run) AS (
        SELECT NULL, 1, 0, NULL, coalesce(:at, head), :start, 0 FROM here
        UNION
        SELECT a.no, coalesce(j.id & 4294967295, a.fork_seq + 1), walk.next, j.base,
            iif(j.id IS NULL, min(walk.next, a.fork_seq), j.base),
            iif(j.id IS NULL, a.parent, a.no),
            iif(j.id IS NULL, 0, walk.run + 1)
        FROM walk
        JOIN agents a ON a.no = walk.next_no
        LEFT JOIN events j INDEXED BY jumps ON j.base IS NOT NULL AND j.id = (
            SELECT e.id FROM events e INDEXED BY jumps
            WHERE e.base IS NOT NULL
                AND e.id BETWEEN (a.no << 32) + a.fork_seq + 1 AND (a.no << 32) + walk.next
            ORDER BY e.id DESC LIMIT 1)
        WHERE walk.next > 0 AND walk.run < {RUN})
    SELECT walk.*, here.head FROM here, walk"""
JUMPS = f"""
    SELECT e.id & 4294967295, e.base FROM events e INDEXED BY jumps
    WHERE e.base IS NOT NULL AND e.id BETWEEN :start << 32 AND (:start << 32) + :at
    ORDER BY e.id DESC LIMIT {BLOCK}"""

LINEAGE = f"""
    WITH RECURSIVE line (no, low, high, parent, fork_seq) AS (
        SELECT a.no, a.fork_seq + 1, {HEAD}, a.parent, a.fork_seq
        FROM agents a WHERE a.no = :no AND a.deleted IS NULL
        UNION
        SELECT a.no, a.fork_seq + 1, line.fork_seq, a.parent, a.fork_seq
        FROM line JOIN agents a ON a.no = line.parent WHERE line.fork_seq > 0)
    SELECT no, low, high, NULL, fork_seq FROM line"""

# Times never decrease in a lineage: find the agent that wrote at that time, then bisect.
POSITION_AT = f"""
    WITH RECURSIVE
    line (no, parent, fork_seq, high, created_at) AS (
        SELECT a.no, a.parent, a.fork_seq, {HEAD}, a.created_at FROM agents a WHERE a.no = :no
        UNION
        SELECT a.no, a.parent, a.fork_seq, line.fork_seq, a.created_at
        FROM line JOIN agents a ON a.no = line.parent
        WHERE line.fork_seq > 0 AND line.created_at > :moment),
    halves (no, low, high) AS (
        SELECT no, fork_seq, high FROM line WHERE created_at <= :moment
        UNION
        SELECT h.no,
            iif(e.created_at <= :moment, (h.low + h.high + 1) / 2, h.low),
            iif(e.created_at <= :moment, h.high, (h.low + h.high + 1) / 2 - 1)
        FROM halves h LEFT JOIN events e ON e.id = (h.no << 32) + (h.low + h.high + 1) / 2
        WHERE h.low < h.high)
    SELECT low FROM halves WHERE low = high"""
