cat >t.txt <<'END'
# Two blocks of 1 MiB share a segment of 2 MiB (R31); the third needs another one, and there is memory for two only.
mark begin phase load
alloc a 1048576
alloc b 1048576
mark end phase load
alloc c 1048576
free a
alloc d 1048577
END
allocsim run -q --capacity 4MiB t.txt
python3 -c 'import sqlite3; print(*sqlite3.connect("allocsim.db").execute("SELECT label, kind, first_event, last_event, peak_allocated, end_reserved FROM phases"))'
