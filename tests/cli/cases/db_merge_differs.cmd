# The same key with another digest, or another number: an error that says so, and nothing is merged.
allocsim run -q --db a.db --max-split 32 small.pickle >/dev/null
allocsim run -q --db b.db small.pickle >/dev/null
allocsim run -q --db b.db --max-split 32 small.pickle >/dev/null
cp b.db c.db
sqlite3 b.db "update runs set placement_digest='0123456789abcdef' where run_id=2"
sqlite3 c.db "update metrics set value=7 where run_id=2 and name='stall_ns'"
cksum <a.db >before
allocsim db merge a.db b.db; echo exit $?
allocsim db merge a.db c.db; echo exit $?
allocsim db merge new.db b.db c.db; echo exit $?
allocsim db merge a.db a.db; echo exit $?
allocsim db merge a.db missing.db; echo exit $?
allocsim db merge a.db small.pickle; echo exit $?
cksum <a.db | cmp - before && echo unchanged
ls *.db*
