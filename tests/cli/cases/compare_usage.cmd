printf 'device gpu capacity=1GiB\nalloc w 6MiB\n' >a.text
allocsim run -q --db a.db a.text >/dev/null
allocsim compare a.text; echo exit $?
allocsim compare a.db; echo exit $?
allocsim compare a.db a.db:1; echo exit $?
allocsim compare a.db:1 a.db:9; echo exit $?
allocsim compare a.db:1 missing.db:1; echo exit $?
allocsim compare a.db:1 a.db:1 --torch 2.1; echo exit $?
allocsim compare a.text a.db:1 --torch-b 2.1; echo exit $?
allocsim compare missing.zst a.text; echo exit $?
allocsim compare a.text missing.db; echo exit $?
allocsim compare -f yaml a.text a.text; echo exit $?
allocsim compare -q --conf 'no_such_option:1' a.text a.text; echo exit $?
allocsim compare a.text --policy-b torchcach; echo exit $?
