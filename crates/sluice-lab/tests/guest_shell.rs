//! The shell that tests talk to in a guest.

mod common;

use common::daemon::Daemon;
use common::guest::GuestShell;

#[test]
fn whatever_a_command_prints_its_end_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::serve(dir.path(), &dir.path().join("socket"), &[]);
    let Some(mut guest) = GuestShell::start(&daemon) else {
        return;
    };
    for (command, printed) in [
        ("true", ""),
        ("printf word", "word"),
        ("printf 'word\\n'", "word"),
        ("printf 'word\\n\\n'", "word\n"),
        ("printf 'one\\ntwo'", "one\ntwo"),
    ] {
        assert_eq!(guest.run(command), printed, "{command}");
    }
}
