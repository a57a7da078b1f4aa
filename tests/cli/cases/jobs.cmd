cp small.pickle b.pickle
allocsim run -q --jobs 1 --db one.db --layout --format csv small.pickle b.pickle missing.pickle small.pickle >one
echo $?
allocsim run -q --jobs 8 --db many.db --layout --format csv small.pickle b.pickle missing.pickle small.pickle >many
cmp one many && wc -l <many
python3 - <<'END'
import sqlite3
one, many = (list(sqlite3.connect(name).iterdump()) for name in ('one.db', 'many.db'))
differ = [line for line in set(one) ^ set(many) if 'INTO "about"' not in line]
print(len(one) > 60, differ)
END
