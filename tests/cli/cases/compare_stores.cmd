# Runs of stores, and whole stores, matched by trace and settings.
printf 'device gpu capacity=1GiB\nalloc w 6MiB\nalloc x 30MiB\n' >a.text
allocsim run -q --db a.db --layout a.text >/dev/null
allocsim run -q --db a.db --layout --capacity 40MiB a.text >/dev/null
cp a.db b.db
allocsim compare a.db b.db; echo exit $?
sqlite3 b.db "update metrics set value=7 where run_id=1 and name='stall_ns'"
allocsim run -q --db b.db --max-split 64 a.text >/dev/null
allocsim compare a.db b.db; echo exit $?
allocsim compare -f json b.db a.db; echo exit $?
allocsim compare a.db:1 a.db:2 | sed -n '/In short/,/^$/p;/Failures/,$p'
allocsim compare -q a.db:1 a.text; echo exit $?
