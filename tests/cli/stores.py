"""What a store holds, as Python sees it: by key, without what may differ between machines or tries."""
import sqlite3

KEY = 'digest, policy, params, device, device_digest, capacity_bytes, seed'
TABLES = ('metrics', 'samples', 'ooms', 'mismatches', 'segments', 'blocks', 'phases')


def content(path):
    """{key: (status, placement digest, {table: rows})} of every run."""
    db = sqlite3.connect(path)
    try:
        runs = {}
        for run, *key, status, digest in db.execute(
                f'SELECT run_id, {KEY}, status, placement_digest FROM runs JOIN traces USING(trace_id)'):
            tables = {}
            for table in TABLES:
                rows = db.execute(f'SELECT * FROM {table} WHERE run_id=?', (run,)).fetchall()
                tables[table] = sorted(tuple(row[1:]) for row in rows)  # the first column is run_id
            runs[tuple(key)] = (status, digest, tables)
        return runs
    finally:
        db.close()


def about(path):
    """{run_id: when, where and how fast it was stored}: a run that is repeated would change it."""
    db = sqlite3.connect(path)
    try:
        return {row[0]: row[1:] for row in db.execute('SELECT * FROM about')}
    finally:
        db.close()
