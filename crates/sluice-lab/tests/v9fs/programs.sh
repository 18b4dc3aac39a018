# In a guest: programs with little to do in the current directory. A line for each.
export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
exec 3>&1 >log 2>&1
set -eu

mkdir tree tree/sub
for i in 1 2 3 4 5; do printf 'int f%d(void) { return %d; }\n' "$i" "$i" >"tree/f$i.c"; done
head -c 100000 /dev/urandom >tree/sub/data
ln -s ../f1.c tree/sub/link

git init -q repository
cp -a tree repository/
cd repository
git add . && git commit -qm one
echo more >>tree/f1.c && git mv tree/sub tree/moved && git commit -qam two
git gc -q && git checkout -q HEAD~ && [ -f tree/sub/data ] && git checkout -q -
git fsck --strict && [ -z "$(git status --porcelain)" ]
cd ..
echo ok git >&3

sqlite3 db 'create table t(n);'
for i in 1 2 3 4 5 6 7 8 9 10; do echo "insert into t values($i);"; done | sqlite3 db
[ "$(sqlite3 db 'select sum(n) from t; pragma integrity_check;' | paste -s)" = '55	ok' ]
echo ok sqlite >&3

tar -cf archive.tar tree && mkdir out && tar -xpf archive.tar -C out && diff -r tree out/tree
[ "$(readlink out/tree/sub/link)" = ../f1.c ]
echo ok tar >&3

{
    echo 'int printf(const char *, ...);'
    for i in 1 2 3 4 5; do echo "int f$i(void);"; done
    echo 'int main(void) { printf("%d\n", f1() + f2() + f3() + f4() + f5()); }'
} >tree/main.c
echo 'sum: main.o f1.o f2.o f3.o f4.o f5.o; $(CC) -o $@ $^' >tree/Makefile
make -C tree -j2 CC=gcc sum && [ "$(tree/sum)" = 15 ]
touch tree/f3.c && [ "$(make -n -C tree CC=gcc sum | grep -c ' -c ')" = 1 ]
echo ok make >&3
