# In a guest: what mounts of one tree with different options promise. A line for each.
none=/mnt/tree loose=/mnt/tree1 mmap=/mnt/tree2 unix=/mnt/tree3 plan9=/mnt/tree4

# promise NAME COMMANDS...: all of them succeed.
promise() {
    if said=$(set -eu; eval "$2" 2>&1); then echo "ok $1"; else echo "FAILED $1: $said"; fi
}

forget() { sync && echo 3 >/proc/sys/vm/drop_caches; }

for cache in none loose mmap; do
    where=${!cache}/of-$cache
    mkdir "$where" && cd "$where" || exit 1
    promise "a write through one name shows through the other ($cache)" '
        echo one >a && ln a b && forget && echo two >>a && forget
        [ "$(cat b)" = "$(printf "one\ntwo")" ]
        echo three >>b && forget && [ "$(wc -l <a)" = 3 ] && [ "$(stat -c %h a)" = 2 ]
        [ "$(stat -c %i a)" = "$(stat -c %i b)" ] && rm a && forget && [ "$(wc -l <b)" = 3 ]'
    promise "an ancestor that is renamed takes open files along ($cache)" '
        mkdir -p x/y/z && cd x/y/z && exec 3>file && echo one >&3 && mv ../../../x ../../../w
        echo two >&3 && exec 3>&- && echo three >>file && cat "$OLDPWD/w/y/z/file" | wc -l | grep -qx 3
        forget && [ "$(wc -l <"$OLDPWD/w/y/z/file")" = 3 ] && [ ! -e "$OLDPWD/x" ]'
    promise "a file that is removed lives on ($cache)" '
        echo one >gone && exec 3<>gone && rm gone && echo other >gone
        cat <&3 | grep -qx one && echo two >&3 && exec 3>&- && [ "$(cat gone)" = other ]'
    promise "attributes are kept ($cache)" '
        echo >attr && setfattr -n user.one -v first attr && setfattr -n user.one -v second attr
        setfattr -n user.two -v "$(printf %3000d 7)" attr && forget
        [ "$(getfattr --only-values -n user.one attr)" = second ]
        [ "$(getfattr --only-values -n user.two attr | wc -c)" = 3000 ]
        setfattr -x user.one attr && ! getfattr -n user.one attr'
    promise "content arrives whole ($cache)" '
        head -c 5000001 /dev/urandom >big && sum=$(sha256sum <big) && forget
        [ "$(sha256sum <big)" = "$sum" ] && truncate -s 100 big && forget && [ "$(wc -c <big)" = 100 ]'
done

for dialect in unix plan9; do
    where=${!dialect}/of-$dialect
    mkdir "$where" && cd "$where" || exit 1
    promise "names come and go ($dialect)" '
        mkdir d && echo one >d/f && [ "$(ls d)" = f ] && mv d/f d/g && [ ! -e d/f ] && [ -f d/g ]
        ! rmdir d && rm d/g && rmdir d && [ -z "$(ls)" ]'
    promise "content is kept ($dialect)" '
        head -c 300000 /dev/urandom >f && sum=$(sha256sum <f) && cp f g && forget
        [ "$(sha256sum <g)" = "$sum" ] && : >g && [ ! -s g ]'
    promise "modes are kept ($dialect)" '
        echo >m && chmod 640 m && forget && [ "$(stat -c %a m)" = 640 ]'
done
