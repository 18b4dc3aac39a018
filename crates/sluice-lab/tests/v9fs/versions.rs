//! What `--qid-version` is to a client that tells files apart by it.

use crate::common::guest::GuestShell;
use crate::scene::Scene;
use std::fs;

/// Brings to the server what is not there yet, and forgets what nobody has open.
const FORGET: &str = "sync && echo 3 >/proc/sys/vm/drop_caches";

/// A cache that is never asked about, and none.
const MOUNTS: [&str; 2] = ["cache=loose", "cache=none"];

/// Mounted once for each server and cache, in this order.
const STABLE: [&str; 2] = ["/mnt/tree", "/mnt/tree1"];
const CONTENT: [&str; 2] = ["/mnt/tree2", "/mnt/tree3"];

/// A scene with a stable server and one that goes by content, and a guest of both.
fn both() -> Option<(Scene, GuestShell)> {
    let scene = Scene::with_sluices(&[&[], &["--qid-version=content"]])?;
    let options = MOUNTS.map(|cache| format!("version=9p2000.L,{cache}"));
    let mounts: Vec<(usize, &str)> = [0, 1]
        .iter()
        .flat_map(|server| options.iter().map(move |it| (*server, &**it)))
        .collect();
    let guest = scene.guest_of(&mounts, GuestShell::SCRIPT);
    Some((scene, GuestShell::of(&guest)))
}

#[test]
fn hard_links_stay_one_file_while_versions_are_stable() {
    let Some((scene, mut shell)) = both() else {
        return;
    };
    // The host makes them, so that the guest meets each name by itself.
    let make = |name: &str| {
        let dir = scene.tree().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("a"), "zero").unwrap();
        fs::hard_link(dir.join("a"), dir.join("b")).unwrap();
        dir
    };
    // One name is open, the other is met again behind a write.
    let begin = format!(
        "exec 3<a && cat a && printf ONE- 1<>a && {FORGET} && cat a b && printf two- 1<>b && sync"
    );
    let told = "echo $(stat -c '%h %i' a b)";
    for (at, (mount, is_stable)) in STABLE
        .iter()
        .map(|mount| (mount, true))
        .chain(CONTENT.iter().map(|mount| (mount, false)))
        .enumerate()
    {
        let dir = make(&at.to_string());
        assert_eq!(
            shell.run(&format!("cd {mount}/{at} && {begin}")),
            "zeroONE-ONE-"
        );
        assert_eq!(fs::read(dir.join("a")).unwrap(), b"two-");
        // A version that follows the content makes another file of the other name,
        // with pages of its own, if there are any.
        let is_split = !is_stable && MOUNTS[at % 2] == "cache=loose";
        let seen = if is_split { "ONE-" } else { "two-" };
        assert_eq!(shell.run("cat a"), seen, "{mount}");
        assert_eq!(shell.run("cat <&3 && exec 3<&-"), seen, "{mount}");
        // Whichever it is, none of it lasts.
        assert_eq!(shell.run(&format!("{FORGET} && cat a b")), "two-two-");
        let numbers = shell.run(told);
        let words: Vec<&str> = numbers.split(' ').collect();
        let [links, one, other_links, other] = words[..] else {
            panic!("{numbers}");
        };
        assert_eq!((links, other_links, one), ("2", "2", other), "{mount}");
        assert_eq!(shell.run("rm b && stat -c %h a"), "1", "{mount}");
    }
}

#[test]
fn versions_of_content_tell_a_cache_of_edits_by_the_host() {
    let Some((scene, mut shell)) = both() else {
        return;
    };
    for (mount, is_cached) in [(CONTENT[0], true), (CONTENT[1], false), (STABLE[1], false)] {
        let file = scene.tree().join("file");
        fs::write(&file, "one").unwrap();
        let first = shell.run(&format!("cd {mount} && cat file && stat -c ' %s' file"));
        assert_eq!(first, "one 3", "{mount}");
        fs::write(&file, "longer").unwrap();
        let look = "cat file && stat -c ' %s' file";
        let expected = if is_cached { "one 3" } else { "longer 6" };
        assert_eq!(shell.run(look), expected, "{mount}");
        assert_eq!(
            shell.run(&format!("{FORGET} && {look}")),
            "longer 6",
            "{mount}"
        );
        // As long as it was.
        fs::write(&file, "LONGER").unwrap();
        assert_eq!(
            shell.run(&format!("{FORGET} && {look}")),
            "LONGER 6",
            "{mount}"
        );
        fs::remove_file(&file).unwrap();
        shell.run(&format!("{FORGET} && [ ! -e file ]"));
    }
}
