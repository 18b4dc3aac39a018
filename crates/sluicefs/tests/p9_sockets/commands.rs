//! `sluice ls`, `cat`, `put`, `stat`, `rm` and `mkdir`, against a real server.

use crate::common::{run, skip, sluice, status_and_line, text};
use crate::server::{Server, pattern};
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};

const DIALECTS: [&str; 4] = ["9P2000.L.sluice", "9P2000.L", "9P2000.u", "9P2000"];

impl Server {
    /// A file of the share as commands name it.
    fn place(&self, path: &str) -> String {
        format!("unix:{}:{path}", text(&self.socket()))
    }
}

/// What it wrote to stdout; it said nothing else, and went well.
#[track_caller]
fn out(output: Output) -> Vec<u8> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "");
    assert_eq!(output.status.code(), Some(0));
    output.stdout
}

#[track_caller]
fn lines(output: Output) -> Vec<String> {
    let text = String::from_utf8(out(output)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn files_come_and_go_whole_in_every_dialect() {
    let server = Server::start(&[]);
    let local = tempfile::tempdir().unwrap();
    for (size, dialect) in [0, 1, 100_000, 5_000_000].into_iter().zip(DIALECTS) {
        let bytes = pattern(size);
        let source = local.path().join("source");
        fs::write(&source, &bytes).unwrap();
        fs::set_permissions(&source, fs::Permissions::from_mode(0o640)).unwrap();
        let name = format!("copy{size}");
        let place = server.place(&name);
        out(run(&["put", "--dialect", dialect, text(&source), &place]));
        let copy = server.share().join(&name);
        assert!(fs::read(&copy).unwrap() == bytes, "{dialect}");
        assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o640);
        let back = out(run(&["cat", "--dialect", dialect, &place, &place]));
        assert!(back == bytes.repeat(2), "{dialect}");
        // Over what is there, and into a directory.
        fs::write(&source, "short").unwrap();
        out(run(&["put", "--dialect", dialect, text(&source), &place]));
        assert_eq!(fs::read(&copy).unwrap(), b"short");
        out(run(&[
            "put",
            "--dialect",
            dialect,
            text(&source),
            &server.place("/"),
        ]));
        assert_eq!(fs::read(server.share().join("source")).unwrap(), b"short");
    }
    server.stop();
}

#[test]
fn what_a_symlink_leads_to_takes_content() {
    let server = Server::start(&[]);
    let share = server.share();
    fs::create_dir(share.join("dir")).unwrap();
    symlink("dir/file", share.join("link")).unwrap();
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("source");
    fs::write(&source, "content").unwrap();
    for dialect in &DIALECTS[..3] {
        let put = || {
            run(&[
                "put",
                "--dialect",
                dialect,
                text(&source),
                &server.place("link"),
            ])
        };
        let (status, line) = status_and_line(&put());
        assert_eq!(status, 1);
        assert!(
            line.ends_with("link': Too many levels of symbolic links"),
            "{line}"
        );
        fs::write(share.join("dir/file"), "before").unwrap();
        out(put());
        assert_eq!(fs::read(share.join("dir/file")).unwrap(), b"content");
        assert!(share.join("link").is_symlink());
        fs::remove_file(share.join("dir/file")).unwrap();
    }
    server.stop();
}

#[test]
fn stdin_is_put_and_a_closed_stdout_is_no_error() {
    let server = Server::start(&[]);
    let bytes = pattern(3_000_000);
    let place = server.place("from stdin");
    let mut put = sluice(&["put", "-", &place]);
    let mut child = put
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    out(child.wait_with_output().unwrap());
    assert!(fs::read(server.share().join("from stdin")).unwrap() == bytes);

    let mut cat = sluice(&["cat", &place]);
    let mut child = cat
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut start).unwrap();
    assert_eq!(start, bytes[..1000]);
    out(child.wait_with_output().unwrap());

    let named = run(&["put", "-", &server.place("/")]);
    let (status, line) = status_and_line(&named);
    assert_eq!(status, 1);
    assert!(line.contains("stdin has no name"), "{line}");
    server.stop();
}

#[test]
fn trees_are_put_listed_and_removed() {
    let server = Server::start(&[]);
    let local = tempfile::tempdir().unwrap();
    let tree = local.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/file"), "content").unwrap();
    fs::write(tree.join(".hidden"), "").unwrap();
    symlink("a/b", tree.join("link")).unwrap();
    let odd = OsStr::from_bytes(b"\xff odd\n");
    fs::write(tree.join(odd), "").unwrap();
    let (status, line) = status_and_line(&run(&["put", text(&tree), &server.place("")]));
    assert_eq!(status, 1);
    assert!(
        line.ends_with("is a directory; -r takes directories"),
        "{line}"
    );
    out(run(&["put", "-r", text(&tree), &server.place("")]));
    // And once more over it.
    out(run(&["put", "-r", text(&tree), &server.place("")]));
    let copy = server.share().join("tree");
    assert_eq!(fs::read(copy.join("a/b/file")).unwrap(), b"content");
    assert_eq!(
        fs::read_link(copy.join("link")).unwrap().to_str(),
        Some("a/b")
    );
    assert!(copy.join(odd).exists());
    // A symlink that is named is followed.
    let named = local.path().join("named");
    symlink(&tree, &named).unwrap();
    out(run(&["put", "-r", text(&named), &server.place("")]));
    let followed = fs::symlink_metadata(server.share().join("named")).unwrap();
    assert!(followed.is_dir());

    let listed = |more: &[&str]| out(run(&[&["ls"], more, &[&server.place("tree")]].concat()));
    assert_eq!(listed(&[]), b"a\nlink\n\xff odd\n\n");
    assert_eq!(listed(&["-a"]), b".hidden\na\nlink\n\xff odd\n\n");
    for dialect in DIALECTS {
        let arguments = ["ls", "-l", "--dialect", dialect, &server.place("tree/a/b")];
        let lines = lines(run(&arguments));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("-rw-"), "{lines:?}");
        assert!(lines[0].ends_with(" file"), "{lines:?}");
        let words: Vec<_> = lines[0].split_whitespace().collect();
        assert_eq!(words[4], "7", "{lines:?}");
    }
    let link = lines(run(&["ls", "-l", &server.place("tree/link")]));
    assert!(link[0].ends_with(" tree/link -> a/b"), "{link:?}");
    assert_eq!(lines(run(&["ls", &server.place("tree/link")])), ["file"]);
    let both = [server.place("tree/a"), server.place("tree/a/b")];
    let titled = lines(run(&["ls", &both[0], &both[1]]));
    assert_eq!(titled.len(), 5);
    assert!(titled[0].ends_with(":tree/a:"), "{titled:?}");

    let (status, line) = status_and_line(&run(&["rm", &server.place("tree")]));
    assert_eq!(status, 1);
    assert!(
        line.contains("Is a directory; -r takes directories"),
        "{line}"
    );
    symlink(local.path(), copy.join("outside")).unwrap();
    out(run(&["rm", "-r", &server.place("tree")]));
    assert!(!copy.exists());
    assert!(tree.join("a/b/file").exists(), "a symlink was followed");
    let gone = server.place("tree");
    out(run(&["rm", "-f", &gone]));
    let (status, line) = status_and_line(&run(&["rm", &gone]));
    assert_eq!((status, line.contains("No such file")), (1, true), "{line}");
    server.stop();
}

/// One whose path is too long cannot be read, whoever reads.
#[test]
fn what_cannot_be_read_is_left_out_of_a_tree() {
    let server = Server::start(&[]);
    let local = tempfile::tempdir().unwrap();
    let tree = local.path().join("tree");
    let mut deep = tree.clone();
    while text(&deep).len() < 3700 {
        deep.push("n".repeat(200));
    }
    deep.push("n".repeat(4000 - text(&deep).len()));
    fs::create_dir_all(deep.join("dir")).unwrap();
    fs::write(deep.join("dir/file"), "content").unwrap();
    let mut shell = std::process::Command::new("sh");
    let long = "l".repeat(150);
    shell.args(["-c", "cd \"$0\" && : >\"$1\"", text(&deep), &long]);
    assert!(shell.status().unwrap().success());
    let (status, line) = status_and_line(&run(&["put", "-r", text(&tree), &server.place("")]));
    assert_eq!(status, 1);
    assert!(line.starts_with("sluice: cannot read '"), "{line}");
    assert!(line.ends_with("lll': File name too long"), "{line}");
    let copy = deep.strip_prefix(local.path()).unwrap();
    let file = server.share().join(copy).join("dir/file");
    assert_eq!(fs::read(file).unwrap(), b"content");
    server.stop();
}

#[test]
fn a_tree_is_put_into_itself_once() {
    let server = Server::start(&[]);
    let share = server.share();
    fs::create_dir(share.join("dir")).unwrap();
    fs::write(share.join("dir/file"), "content").unwrap();
    // A limit ends what would go on for ever.
    let put = |to: &str| {
        let mut timeout = std::process::Command::new("timeout");
        let command = sluice(&["put", "-r", text(&share), &server.place(to)]);
        timeout.arg("10").arg(command.get_program());
        timeout.args(command.get_args()).env_remove("RUST_LOG");
        out(timeout.output().unwrap());
    };
    put("/copy");
    let copied = |dir: &str| fs::read(share.join(dir).join("dir/file")).unwrap();
    assert_eq!(copied("copy"), b"content");
    assert!(!share.join("copy/copy").exists());
    // Into what is there, then over what is there.
    put("/copy");
    let within = share.join("copy").join(share.file_name().unwrap());
    assert_eq!(copied(text(&within)), b"content");
    put("/copy");
    assert_eq!(copied(text(&within.join("copy"))), b"content");
    server.stop();
}

/// One that shares what is here, as is usual with guests on the same machine.
#[test]
fn a_file_is_not_emptied_by_being_put_where_it_is() {
    let server = Server::start(&[]);
    let share = server.share();
    let file = share.join("file");
    fs::create_dir(share.join("dir")).unwrap();
    fs::write(&file, pattern(1000)).unwrap();
    fs::hard_link(&file, share.join("other name")).unwrap();
    fs::hard_link(&file, share.join("dir/file")).unwrap();
    symlink("file", share.join("link")).unwrap();
    for dialect in DIALECTS {
        for name in ["", "file", "other name", "link"] {
            // Plain 9P2000 has no symlinks.
            if (name, dialect) == ("link", "9P2000") {
                continue;
            }
            let place = server.place(name);
            let output = run(&["put", "--dialect", dialect, text(&file), &place]);
            let (status, line) = status_and_line(&output);
            assert_eq!(status, 1, "{line}");
            assert!(line.contains("are the same file; give the copy"), "{line}");
        }
        let (dir, root) = (share.join("dir"), server.place(""));
        let tree = ["put", "-r", "--dialect", dialect, text(&dir), &root];
        let (_, line) = status_and_line(&run(&tree));
        assert!(line.contains("are the same file"), "{line}");
        let mut stdin = sluice(&["put", "--dialect", dialect, "-", &server.place("file")]);
        let stdin = stdin
            .stdin(fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        let (_, line) = status_and_line(&stdin);
        assert!(line.contains("'-' and"), "{line}");
        let end = fs::OpenOptions::new().append(true).open(&file).unwrap();
        let mut cat = sluice(&["cat", "--dialect", dialect, &server.place("file")]);
        let (_, line) = status_and_line(&cat.stdout(end).output().unwrap());
        assert!(line.contains("stdout is that file"), "{line}");
    }
    assert!(fs::read(&file).unwrap() == pattern(1000));
    // The same content is not the same file.
    fs::copy(&file, server.dir.path().join("copy")).unwrap();
    out(run(&[
        "put",
        text(&server.dir.path().join("copy")),
        &server.place("file"),
    ]));
    server.stop();
}

#[test]
fn directories_are_made_and_files_described() {
    let server = Server::start(&[]);
    let place = |path| server.place(path);
    out(run(&["mkdir", "-m", "750", &place("one"), &place("two")]));
    assert_eq!(
        fs::metadata(server.share().join("one")).unwrap().mode() & 0o7777,
        0o750
    );
    let (status, line) = status_and_line(&run(&["mkdir", &place("one")]));
    assert_eq!((status, line.contains("File exists")), (1, true), "{line}");
    let (status, line) = status_and_line(&run(&["mkdir", &place("x/y/z")]));
    assert_eq!((status, line.contains("No such file")), (1, true), "{line}");
    out(run(&["mkdir", "-p", &place("x/y/z"), &place("one")]));
    assert!(server.share().join("x/y/z").is_dir());

    fs::write(server.share().join("one/file"), "12345").unwrap();
    let about = fs::metadata(server.share().join("one/file")).unwrap();
    for dialect in DIALECTS {
        let lines = lines(run(&["stat", "--dialect", dialect, &place("/one/file")]));
        let has = |line: &str| assert!(lines.iter().any(|it| it == line), "{line}: {lines:?}");
        has("Path: /one/file");
        has("Type: regular file");
        has("Size: 5");
        if dialect != "9P2000" {
            has(&format!("Owner: {}", about.uid()));
        }
        let modified = lines.iter().any(|line| line.starts_with("Modified: 20"));
        assert!(modified, "{lines:?}");
    }
    let root = format!("unix:{}", text(&server.socket()));
    assert_eq!(lines(run(&["ls", "-d", &root])), ["/"]);
    assert!(lines(run(&["stat", &root])).contains(&"Path: /".to_owned()));
    server.stop();
}

#[test]
fn what_goes_wrong_is_one_line_and_the_rest_is_done() {
    let server = Server::start(&[]);
    fs::write(server.share().join("file"), "content").unwrap();
    let output = run(&["cat", &server.place("missing"), &server.place("file")]);
    assert_eq!(output.stdout, b"content");
    let (status, line) = status_and_line(&output);
    let expected = format!(
        "sluice: cannot open '{}': No such file or directory",
        server.place("missing")
    );
    assert_eq!((status, line), (1, expected));

    let nobody = format!("unix:{}", text(&server.dir.path().join("nobody")));
    let (status, line) = status_and_line(&run(&["ls", &nobody]));
    assert_eq!(status, 1);
    assert!(
        line.ends_with("No such file or directory; is the server running?"),
        "{line}"
    );
    let other = format!("unix:{}#other:/", text(&server.socket()));
    let (status, line) = status_and_line(&run(&["ls", &other]));
    assert_eq!(status, 1);
    assert!(line.contains("#other': No such file"), "{line}");

    for arguments in [
        &["ls"][..],
        &["ls", "/etc"],
        &["ls", "unix::/x"],
        &["cat", "vsock:564:/x"],
        &["put", "file"],
        &["put", "file", "elsewhere"],
        &["mkdir", "-m", "9", "unix:x"],
        &["ls", "--msize", "100", "unix:x"],
        &["ls", "--dialect", "9P2001", "unix:x"],
        &["ls", "--timeout", "0", "unix:x"],
        &["ls", "--timeout", "-1", "unix:x"],
        &["ls", "--user", "", "unix:x"],
        &["ls", "--user", "4294967295", "unix:x"],
        &["ls", "--user", "99999999999", "unix:x"],
        &["serve", "/", "--9p", "unix:x", "--aname", ""],
        &["serve", "/", "--9p", "unix:x", "--aname", "a\nb"],
    ] {
        let (status, line) = status_and_line(&run(arguments));
        assert_eq!(status, 2, "{line}");
        assert!(line.contains("--help'"), "{line}");
    }
    server.stop();
}

/// What is refused, and what the line says to do about it.
#[test]
fn what_is_refused_comes_with_advice() {
    let server = Server::start(&[]);
    fs::write(server.share().join("file"), "content").unwrap();
    fs::create_dir_all(server.share().join("dir/file")).unwrap();
    symlink("nowhere", server.share().join("dangling")).unwrap();
    let place = |path| server.place(path);
    let local = tempfile::tempdir().unwrap();
    fs::write(local.path().join("dir"), "").unwrap();
    let (local_file, share) = (local.path().join("dir"), server.share());
    for (arguments, expected) in [
        (
            &["rm", "-rf", &place("/")][..],
            "/': it is the root of the export; name what is in it",
        ),
        (&["rm", "-r", &place("")], "root of the export"),
        (&["rm", "-r", &place("./")], "root of the export"),
        (
            &["rm", "-r", &place("dir/..")],
            "it ends in '..'; name the directory itself",
        ),
        (&["rm", &place("dir")], "Is a directory; -r takes"),
        (&["mkdir", &place("/")], "/': File exists"),
        (&["mkdir", &place("a/b")], "; -p makes those above"),
        (
            &["mkdir", "-p", &place("file/a/b")],
            "file/a/b': Not a directory",
        ),
        (&["mkdir", "-p", &place("file")], "file': File exists"),
        (
            &["mkdir", "-p", &place("dangling")],
            "dangling': File exists",
        ),
        (&["cat", &place("dir")], "Is a directory; sluice ls shows"),
        (
            &["put", text(&local_file), &place("a/b")],
            "; make the directory with sluice mkdir",
        ),
        (
            &["put", text(&local_file), &place("/")],
            "dir': Is a directory",
        ),
        (
            &["put", "-r", text(&share.join("dir")), &place("file")],
            "file': File exists",
        ),
        (
            &["ls", &format!("unix:{}#none", text(&server.socket()))],
            "; does the server have an export of that name?",
        ),
    ] {
        let (status, line) = status_and_line(&run(arguments));
        assert_eq!((status, line.contains(expected)), (1, true), "{line}");
    }
    for dialect in DIALECTS {
        let output = run(&["cat", "--dialect", dialect, &place("dir")]);
        let (_, line) = status_and_line(&output);
        assert!(line.contains("Is a directory; sluice ls"), "{line}");
        assert_eq!(output.stdout, b"");
    }
    assert!(server.share().join("dir/file").is_dir());
    server.stop();
}

/// A file of another user in a directory with the sticky bit: that is no directory.
#[test]
fn what_may_not_be_removed_is_said_to() {
    if !rustix::process::geteuid().is_root() {
        return skip("only a server of root's does requests as others");
    }
    let server = Server::start(&[]);
    let sticky = server.share().join("sticky");
    fs::create_dir(&sticky).unwrap();
    for dir in [&server.share(), &sticky] {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o1777)).unwrap();
    }
    fs::write(sticky.join("\x1bfile"), "").unwrap();
    for (path, name) in [
        ("sticky/\x1bfile", "sticky/\\u{1b}file"),
        ("sticky", "sticky/\\u{1b}file"),
    ] {
        let arguments = ["rm", "-r", "--user", "65534", &server.place(path)];
        let (status, line) = status_and_line(&run(&arguments));
        let expected = format!("{name}': Operation not permitted; ask as another user");
        assert_eq!((status, line.contains(&expected)), (1, true), "{line}");
    }
    server.stop();
}

#[test]
fn who_speaks_no_9p_is_said_to() {
    let local = tempfile::tempdir().unwrap();
    let socket = local.path().join("ssh");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            stream.unwrap().write_all(b"SSH-2.0-X_1\r\n").unwrap();
        }
    });
    let place = format!("unix:{}", text(&socket));
    let (status, line) = status_and_line(&run(&["ls", &place]));
    let expected = format!(
        "sluice: cannot attach to '{place}': no 9P server answers there (it says \"SSH-2.0-X_1\"); \
        give the address of one"
    );
    assert_eq!((status, line), (1, expected));
}

/// How long a directory is does not matter to what `ls` and `rm` keep in memory.
#[test]
fn directories_of_any_length_take_little_memory() {
    const COUNT: usize = 30_000;
    let server = Server::start(&[]);
    let long = server.share().join("long");
    fs::create_dir(&long).unwrap();
    for number in 0..COUNT {
        fs::write(long.join(format!("{number:0>200}")), "").unwrap();
    }
    // Less than all of the names take, with what belongs to them.
    let limited = |arguments: &[&str]| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -d 16384 && exec \"$0\" \"$@\""]);
        let command = sluice(arguments);
        shell.arg(command.get_program()).args(command.get_args());
        shell.env_remove("RUST_LOG").output().unwrap()
    };
    let names = lines(limited(&["ls", &server.place("long")]));
    // Each piece is in order.
    let turns = names.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!(turns <= COUNT / 8192, "{turns}");
    let numbers: std::collections::BTreeSet<usize> =
        names.iter().map(|name| name.parse().unwrap()).collect();
    assert_eq!((names.len(), numbers.len()), (COUNT, COUNT));
    for number in (0..COUNT).step_by(5000) {
        fs::create_dir_all(long.join(format!("dir{number}/below"))).unwrap();
    }
    out(limited(&["rm", "-r", &server.place("long")]));
    assert!(!long.exists());
    server.stop();
}
