//! Who owns what a guest's users make, and what the server refuses them.

use crate::scene::Scene;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

/// What a guest's user may do.
#[derive(Debug, PartialEq, Eq)]
struct Powers {
    /// Owner and group of a file that it makes.
    makes: (u32, u32),
    /// Root's own file.
    secret: bool,
    /// A file for a group that the guest says the user is in.
    shared: bool,
}

/// A server's options and the mount's, a user, and what is expected.
type Case = (&'static [&'static str], &'static str, u32, Powers);

const NOBODY: u32 = 65_534;

const fn powers(makes: (u32, u32), secret: bool, shared: bool) -> Powers {
    Powers {
        makes,
        secret,
        shared,
    }
}

/// The guest's kernel lets its root read everything and others what their groups may,
/// so that it is the server that refuses these; it lets nobody but root read
/// root's own file.
const CASES: &[Case] = &[
    (&[], "access=user", 0, powers((0, 0), true, true)),
    (
        &[],
        "access=user",
        12345,
        powers((12345, 12345), false, false),
    ),
    (&[], "access=client", 0, powers((0, 0), true, true)),
    // Both sides check.
    (
        &[],
        "access=client",
        12345,
        powers((12345, 12345), false, false),
    ),
    (
        &["--access=client"],
        "access=client",
        0,
        powers((0, 0), true, true),
    ),
    (
        &["--access=client"],
        "access=client",
        12345,
        powers((12345, 12345), false, true),
    ),
    (
        &["--access=any"],
        "access=any",
        0,
        powers((0, 0), true, true),
    ),
    (
        &["--access=any"],
        "access=any",
        12345,
        powers((0, 0), false, true),
    ),
    (
        &["--access=any"],
        "access=user",
        12345,
        powers((0, 0), false, true),
    ),
    (
        &["--squash=root"],
        "access=user",
        0,
        powers((NOBODY, NOBODY), false, false),
    ),
    (
        &["--squash=root"],
        "access=user",
        12345,
        powers((12345, NOBODY), false, false),
    ),
    (
        &["--squash=all:55:56"],
        "access=user",
        0,
        powers((55, 56), false, false),
    ),
    (
        &["--squash=all:55:56"],
        "access=user",
        12345,
        powers((55, 56), false, false),
    ),
    (
        &["--squash=all:55:50"],
        "access=any",
        12345,
        powers((55, 50), false, true),
    ),
    (
        &["--access=any", "--squash=all:77:78"],
        "access=any",
        0,
        powers((77, 78), false, false),
    ),
];

/// What each user does on each mount: a line for what succeeds.
const SCRIPT: &str = r#"
act() {
    cd "$1" && : >"made-$2" && echo "$2 makes"
    grep -q content secret && echo "$2 secret"
    grep -q content shared && echo "$2 shared"
}
export -f act
nth=0
while read -r mount uid; do
    setpriv --reuid "$uid" --regid "$uid" --groups 50 bash -c "act $mount $nth" 2>/dev/null
    nth=$((nth + 1))
done
"#;

#[test]
fn requests_count_as_whom_both_sides_options_say() {
    let mut servers: Vec<&[&str]> = CASES.iter().map(|case| case.0).collect();
    servers.dedup();
    let Some(scene) = Scene::with_sluices(&servers) else {
        return;
    };
    let tree = scene.tree();
    let mode = fs::Permissions::from_mode;
    fs::set_permissions(&tree, mode(0o777)).unwrap();
    fs::set_permissions(tree.parent().unwrap(), mode(0o755)).unwrap();
    for (name, bits) in [("secret", 0o600), ("shared", 0o640)] {
        fs::write(tree.join(name), "content").unwrap();
        fs::set_permissions(tree.join(name), mode(bits)).unwrap();
    }
    chown(tree.join("shared"), Some(0), Some(50)).unwrap();

    let mut mounts: Vec<(usize, String)> = Vec::new();
    let mut orders = String::new();
    for (options, access, uid, _) in CASES {
        let server = servers.iter().position(|it| it == options).unwrap();
        let mount = (server, format!("version=9p2000.L,cache=none,{access}"));
        let at = mounts
            .iter()
            .position(|it| *it == mount)
            .unwrap_or_else(|| {
                mounts.push(mount);
                mounts.len() - 1
            });
        let number = if at == 0 {
            String::new()
        } else {
            at.to_string()
        };
        orders.push_str(&format!("/mnt/tree{number} {uid}\n"));
    }
    let mounts: Vec<(usize, &str)> = mounts.iter().map(|(at, words)| (*at, &**words)).collect();
    let output = scene.guest_of(&mounts, SCRIPT).output(orders).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let does = |nth: usize, what: &str| said.lines().any(|line| line == format!("{nth} {what}"));
    for (nth, (options, access, uid, expected)) in CASES.iter().enumerate() {
        let case = format!("{options:?}, {access}, {uid}: {said}");
        assert!(does(nth, "makes"), "{case}");
        let made = fs::metadata(tree.join(format!("made-{nth}"))).unwrap();
        let found = powers(
            (made.uid(), made.gid()),
            does(nth, "secret"),
            does(nth, "shared"),
        );
        assert_eq!(found, *expected, "{case}");
    }
}
