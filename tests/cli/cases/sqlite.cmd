allocsim run -q --layout small.pickle >table
python3 - <<'END'
import sqlite3
db = sqlite3.connect('allocsim.db')
for query in ('SELECT status, peak_requested_bytes, peak_reserved_bytes, recorded_matches FROM run_summary',
              'SELECT address - 0x7f0000000000, size, requested, state FROM blocks',
              'SELECT size, small, expandable FROM segments',
              'SELECT max(requested), max(reserved) FROM samples',
              'PRAGMA user_version', 'PRAGMA application_id'):
    print(*db.execute(query))
END
