//! The command line as a user meets it: one clear line for everything that is
//! wrong, and the right exit status.

mod common;

use common::{run, sluice, status_and_line, text};

/// Usage errors: status 2, and the line names the culprit and the help to read.
#[test]
fn a_bad_command_line_is_one_line_and_status_2() {
    for (arguments, culprit) in [
        (&[][..], "subcommand"),
        (&["serv"], "'serv'"),
        (&["--fast"], "'--fast'"),
        (&["serve"], "<DIR>"),
        (
            &["serve", "/"],
            "'/' is served nowhere: give --virtiofs <SOCKET>,",
        ),
        (&["serve", "/", "--virtiofs"], "--virtiofs <SOCKET>"),
        (&["serve", "/", "--virtiofs", "s", "--tga", "x"], "'--tga'"),
        (
            &["serve", "/", "--virtiofs", "s", "--cache", "some"],
            "'some'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--tag", ""],
            "--tag <TAG>",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--tag",
                "a-tag-that-is-longer-than-36-bytes-is",
            ],
            "at most 36 bytes",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--negative-timeout", "5"],
            "write a duration such as 250ms",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--writeback"],
            "'always'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--posix-acl", "--no-xattr"],
            "--no-xattr",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--and", "/"],
            "'/' is served nowhere",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--and"],
            "'--and <DIR --virtiofs|--virtio-9p|--9p WHERE [OPTIONS]>",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--and",
                "/",
                "--virtiofs",
                "s",
            ],
            "two devices on 's'",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--and",
                "/",
                "--virtiofs",
                "t",
                "--tga",
            ],
            "'--tga'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--sandbox", "jail"],
            "'jail'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--seccomp", "maybe"],
            "'maybe'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--modcaps", "+fly"],
            "no capability 'fly'",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--uid-map", ":0:1:"],
            "expected :INSIDE:OUTSIDE:COUNT:",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--uid-map=:0:1:1:",
                "--sandbox=none",
            ],
            "need --sandbox namespace",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--sandbox=chroot",
                "--and",
                "/",
                "--virtiofs",
                "t",
            ],
            "for one share",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--translate-uid", "map:0"],
            "expected map:GUEST:HOST:COUNT",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--translate-uid=map:0:1:1",
                "--posix-acl",
            ],
            "POSIX ACLs",
        ),
        (
            &["--cache", "never", "serve", "/", "--virtiofs", "s"],
            "'--cache' found (options of 'sluice serve',",
        ),
        (
            &["serve", "--shared-dir", "/", "--socket-path", "s"],
            "'--shared-dir' found (the directory comes by itself: sluice serve DIR)",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--thread-pool-size=4"],
            "(it is an option of 'sluice virtiofsd')",
        ),
        (
            &["serve", "/", "--virtiofs", "s", "--negative-timeout", "-1"],
            "'-1' for '--negative-timeout <DURATION|always>': write a duration such as",
        ),
        (
            &[
                "serve",
                "/",
                "--virtiofs",
                "s",
                "--and",
                "/",
                "--virtiofs",
                "t",
                "--sandbox=none",
            ],
            "'--sandbox' found (it is for the whole process: write it before --and)",
        ),
        (
            &["mount", "--export", "/", "/mnt", "--cache=none"],
            "(write -o cache=)",
        ),
        (
            &["run", "ls"],
            "'ls' found (a command comes behind two dashes: sluice run -- CMD)",
        ),
        (&["serve", "/", "--config", "f"], "'--config <FILE>'"),
        (&["mount", "/mnt"], "write SRC and MNT"),
        (
            &["mount", "/srv", "/mnt", "--export", "/"],
            "'--export <DIR>'",
        ),
        (&["mount", "srv", "/mnt"], "write ./srv for a directory"),
        (&["mount", "tcp:::1:564", "/mnt"], "tcp:[::1]:564"),
        (
            &["mount", "/srv", "/mnt", "--metrics", "fd:3"],
            "write unix:PATH or tcp:HOST:PORT",
        ),
        (
            &["mount", "h", "/mnt", "-o", "trans=tcp,port=65536"],
            "write a port, 65535 at most",
        ),
        (&["mount", "-t", "9p", "/srv", "/mnt"], "tells its kind"),
        (&["umount", "/mnt"], "(umount MNT does it"),
        (
            &["mount", "s:/sub", "/mnt", "-o", "trans=unix"],
            "write the whole address",
        ),
        (
            &["mount", "/srv", "/mnt", "-o", "soft"],
            "'soft' is about servers",
        ),
        (
            &["mount", "unix:s", "/mnt", "-o", "mszie=5"],
            "unknown mount option 'mszie=5' (did you mean 'msize'?)",
        ),
        (&["mount", "--export", "/"], "<MNT>"),
        (
            &["mount", "--export", "/", "/mnt", "-o", "ro,fast"],
            "unknown mount option 'fast'",
        ),
        (
            &["mount", "--export", "/", "/mnt", "-o", "cache=some"],
            "cache=some",
        ),
        (
            &["mount", "--export", "/", "/mnt", "-o", "writeback"],
            "'always'",
        ),
        (&["completions", "dos"], "'dos'"),
    ] {
        let (status, line) = status_and_line(&run(arguments));
        assert_eq!(status, 2, "{arguments:?}: {line}");
        assert!(line.starts_with("sluice: "), "{line}");
        assert!(line.contains(culprit), "{arguments:?}: {line}");
        assert!(line.contains("; see 'sluice"), "{line}");
        assert!(line.ends_with("--help'"), "{line}");
    }
}

#[test]
fn a_bad_configuration_file_is_one_line_with_its_place_and_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sluice.toml");
    let good = "[[share]]\ndir = '/'\nvirtiofs = 's'\n";
    for (more, place, why) in [
        ("tga = 'x'", "4:1", "unknown key 'tga'"),
        ("cache = 'some'", "4:9", "'some'"),
        ("writeback = true", "1:1", "'always'"),
        ("tag", "4:4", "expected"),
        ("[[share]]\ndir = '/tmp'", "4:1", "served nowhere"),
        (good, "4:1", "two devices on 's'"),
    ] {
        std::fs::write(&path, format!("{good}{more}")).unwrap();
        let (status, line) = status_and_line(&run(&["serve", "--config", text(&path)]));
        assert_eq!(status, 2, "{line}");
        let place = format!("sluice: {}:{place}: ", path.display());
        assert!(line.starts_with(&place), "{line}");
        assert!(line.contains(why), "{line}");
    }
    std::fs::remove_file(&path).unwrap();
    let (status, line) = status_and_line(&run(&["serve", "--config", text(&path)]));
    assert_eq!(status, 1, "{line}");
    assert!(line.contains("No such file"), "{line}");
}

#[test]
fn a_directory_that_is_not_there_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let socket = dir.path().join("socket");
    for (path, why) in [(&missing, "No such file"), (&file, "Not a directory")] {
        let serve = run(&["serve", text(path), "--virtiofs", text(&socket)]);
        let (status, line) = status_and_line(&serve);
        assert_eq!(status, 1, "{line}");
        assert!(line.contains(text(path)) && line.contains(why), "{line}");
        assert!(!socket.exists(), "a socket for nothing");

        for more in [&[][..], &["--foreground"]] {
            let mount = [&["mount", "--export", text(path), text(dir.path())], more].concat();
            let (status, line) = status_and_line(&run(&mount));
            assert_eq!(status, 1, "{line}");
            assert!(line.contains(text(path)) && line.contains(why), "{line}");
        }
    }
}

#[test]
fn a_mount_point_that_is_not_there_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (path, why) in [(&missing, "No such file"), (&file, "Not a directory")] {
        for more in [&[][..], &["--foreground"]] {
            let mount = [&["mount", "--export", text(dir.path()), text(path)], more].concat();
            let (status, line) = status_and_line(&run(&mount));
            assert_eq!(status, 1, "{line}");
            assert!(line.contains(text(path)) && line.contains(why), "{line}");
            // Not said twice when the background process keeps its stderr.
            let logged = sluice(&mount).env("RUST_LOG", "error").output().unwrap();
            assert_eq!(status_and_line(&logged), (1, line));
        }
    }
}

#[test]
fn a_socket_that_cannot_be_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let busy = dir.path().join("busy");
    let _listener = std::os::unix::net::UnixListener::bind(&busy).unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let nowhere = dir.path().join("no/where");
    for (socket, why) in [
        (&busy, "something already does"),
        (&file, "is not a socket"),
        (&nowhere, "No such file"),
    ] {
        let serve = run(&["serve", text(dir.path()), "--virtiofs", text(socket)]);
        let (status, line) = status_and_line(&serve);
        assert_eq!(status, 1, "{line}");
        assert!(line.contains(text(socket)) && line.contains(why), "{line}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    assert!(busy.exists());
}

#[test]
fn help_version_completions_and_manual_pages_are_there() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    let expected = format!("sluice {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version.stdout).unwrap(), expected);

    for command in ["serve", "mount", "completions", "man"] {
        let help = run(&[command, "--help"]);
        assert!(help.status.success());
        let usage = format!("Usage: sluice {command}");
        assert!(String::from_utf8(help.stdout).unwrap().contains(&usage));
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert!(script.status.success());
        assert!(
            String::from_utf8(script.stdout)
                .unwrap()
                .contains("negative-timeout")
        );
    }
    let page = run(&["man"]);
    assert!(page.status.success());
    assert!(
        String::from_utf8(page.stdout)
            .unwrap()
            .contains(".TH sluice 1")
    );

    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    assert!(run(&["man", "--out", text(&pages)]).status.success());
    let serve = std::fs::read_to_string(pages.join("sluice-serve.1")).unwrap();
    assert!(serve.contains("virtiofs"));
}

#[test]
fn a_page_is_printed_by_its_commands_name() {
    let page = run(&["man", "serve"]);
    assert!(page.status.success());
    assert!(
        String::from_utf8(page.stdout)
            .unwrap()
            .contains(".TH sluice-serve 1")
    );
    let (status, line) = status_and_line(&run(&["man", "servo"]));
    assert_eq!(status, 2);
    assert!(line.contains("no command 'servo'"), "{line}");
}
