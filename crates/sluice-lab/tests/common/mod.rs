//! What the tests on real kernels share.
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of it")]

pub mod daemon;
pub mod guest;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Says why something is not tested here, which CI does not accept.
pub fn skip(why: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|ci| ci != "true"),
        "CI runs every test, but: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// What `lab/prepare` filled.
pub fn lab_cache() -> PathBuf {
    let own = lab().join("cache");
    std::env::var_os("SLUICE_LAB_CACHE").map_or(own, PathBuf::from)
}

/// The folder with scripts.
pub fn lab() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab")
}

/// The program with the cases.
pub const POSIX: &str = env!("CARGO_BIN_EXE_posix");

/// What is otherwise where the client's kernel tells of no opens
/// (`cache=always`): opening is where a file's flags refuse it, and then it is
/// the first write that does.
pub const WITHOUT_OPEN: [&str; 4] = [
    "--known",
    "space::an_append_only_file_only_grows",
    "--known",
    "space::an_immutable_file_stays",
];

/// What Linux's own 9P client, v9fs, does otherwise, whatever the server: it passes
/// on no flags of renames and no fallocate, keeps times to the second and none before
/// 1970, takes an attribute without a value for one to remove, sends flock(2) as a
/// POSIX lock, and refuses `F_OFD_GETLK`.
pub const V9FS: [&str; 11] = [
    "rename::noreplace_refuses_what_exists",
    "rename::exchange_swaps_files",
    "rename::exchange_swaps_a_file_and_a_directory",
    "space::allocation_extends_with_zeros",
    "space::allocation_can_keep_the_size",
    "space::allocation_keeps_content",
    "time::times_are_kept_to_the_nanosecond",
    "time::times_before_1970_are_kept",
    "xattr::a_value_may_be_empty",
    "lock::posix_and_flock_locks_are_apart",
    "lock::open_file_locks_tell_who_is_in_the_way",
];

/// What `sluice mount` of a 9P server lacks, as 9P has no words for it: flags of
/// renames, allocation, and flock(2) apart from POSIX locks, with whose rules it has
/// to do.
pub const OVER_9P: &[&str] = &[
    "rename::noreplace_refuses_what_exists",
    "rename::exchange_swaps_files",
    "rename::exchange_swaps_a_file_and_a_directory",
    "space::allocation_extends_with_zeros",
    "space::allocation_can_keep_the_size",
    "space::allocation_keeps_content",
    "lock::flock_is_shared_by_readers",
    "lock::posix_and_flock_locks_are_apart",
];

/// Runs a command that prints TAP and lets all of it pass, with at most so many
/// cases skipped.
#[track_caller]
pub fn passes(command: &mut Command, max_skips: usize) {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_tap(&text, output.status.success(), max_skips);
}

/// The same for what it printed.
#[track_caller]
pub fn assert_tap(text: &str, succeeded: bool, max_skips: usize) {
    let failed: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("ok ") || line.contains("# SKIP"))
        .collect();
    assert!(succeeded, "{}", failed.join("\n"));
    let cases = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(cases > 250, "only {cases} cases:\n{text}");
    let skips = text.lines().filter(|line| line.contains("# SKIP")).count();
    assert!(
        skips <= max_skips,
        "{skips} cases were skipped:\n{}",
        failed.join("\n")
    );
}
