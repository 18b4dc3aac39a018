//! Making and opening files, directories and nodes.

use super::fails;
use crate::posix::Place;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, fstat, linkat};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

cases!("create":
    a_new_file_is_empty,
    new_nodes_belong_to_their_maker [Root],
    the_umask_limits_every_new_node,
    set_id_and_sticky_bits_can_be_made [Root],
    exclusive_creation_refuses_what_exists,
    creation_through_a_dangling_link_makes_its_target,
    truncation_empties_an_old_file,
    creation_leaves_an_old_file_alone,
    a_file_without_write_bits_is_written_by_its_maker,
    directories_are_not_opened_for_writing,
    nofollow_refuses_links,
    the_directory_flag_refuses_files,
    a_path_descriptor_cannot_read,
    a_new_directory_has_two_links,
    mkdir_refuses_what_exists,
    mkdir_of_a_directory_in_nothing_is_enoent,
    a_group_id_directory_gives_its_group [Root],
    a_group_id_bit_needs_membership [Root],
    pipes_carry_bytes,
    sockets_are_bound_and_connected,
    device_nodes_keep_their_numbers [Root, Devices],
    mknod_refuses_what_exists,
    unnamed_files_have_no_links [Tmpfile],
    an_unnamed_file_gets_a_name [Tmpfile],
    an_exclusive_unnamed_file_gets_none [Tmpfile],
    an_unnamed_file_is_for_writing [Tmpfile],
);

fn a_new_file_is_empty(p: &Place) {
    let file = p.create("f", OFlags::RDWR, 0o640).unwrap();
    let stat = fstat(&file).unwrap();
    assert_eq!((stat.st_size, stat.st_nlink), (0, 1));
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile);
    assert_eq!(stat.st_mode & 0o7777, 0o640);
    assert_eq!(stat.st_ino, p.stat("f").unwrap().st_ino);
    assert_eq!(p.read("f"), b"");
}

fn new_nodes_belong_to_their_maker(p: &Place) {
    p.chmod(".", 0o777).unwrap();
    p.as_user(1000, 2000, &[], |p| {
        p.write("f", "");
        p.mkdir("d", 0o755).unwrap();
        p.symlink("f", "l").unwrap();
        p.make_node("p", FileType::Fifo, 0o600, (0, 0)).unwrap();
    });
    for name in ["f", "d", "l", "p"] {
        assert_eq!(p.owner(name), (1000, 2000), "{name}");
    }
}

fn the_umask_limits_every_new_node(p: &Place) {
    p.with_umask(0o027, |p| {
        p.create("f", OFlags::WRONLY, 0o666).unwrap();
        p.mkdir("d", 0o777).unwrap();
        p.make_node("p", FileType::Fifo, 0o666, (0, 0)).unwrap();
    });
    assert_eq!(p.mode("f"), 0o640);
    assert_eq!(p.mode("d"), 0o750);
    assert_eq!(p.mode("p"), 0o640);
    p.with_umask(0, |p| p.create("g", OFlags::WRONLY, 0o666).unwrap());
    assert_eq!(p.mode("g"), 0o666);
}

fn set_id_and_sticky_bits_can_be_made(p: &Place) {
    p.create("f", OFlags::WRONLY, 0o6755).unwrap();
    assert_eq!(p.mode("f"), 0o6755);
    p.mkdir("d", 0o1755).unwrap();
    assert_eq!(p.mode("d"), 0o1755);
}

fn exclusive_creation_refuses_what_exists(p: &Place) {
    let flags = OFlags::WRONLY | OFlags::EXCL;
    p.create("new", flags, 0o644).unwrap();
    p.mkdir("dir", 0o755).unwrap();
    p.symlink("nothing", "dangling").unwrap();
    for name in ["new", "dir", "dangling"] {
        fails(p.create(name, flags, 0o644), Errno::EXIST);
    }
    assert!(!p.has("nothing"));
}

fn creation_through_a_dangling_link_makes_its_target(p: &Place) {
    p.symlink("target", "link").unwrap();
    p.write("link", "through");
    assert_eq!(p.read("target"), b"through");
}

fn truncation_empties_an_old_file(p: &Place) {
    p.write("f", "content");
    p.open("f", OFlags::WRONLY | OFlags::TRUNC).unwrap();
    assert_eq!(p.stat("f").unwrap().st_size, 0);
    assert_eq!(p.read("f"), b"");
}

fn creation_leaves_an_old_file_alone(p: &Place) {
    p.file_with_mode("f", 0o640);
    p.open_mode("f", OFlags::WRONLY | OFlags::CREATE, 0o777)
        .unwrap();
    assert_eq!(p.mode("f"), 0o640);
    assert_eq!(p.read("f"), b"content");
}

fn a_file_without_write_bits_is_written_by_its_maker(p: &Place) {
    p.chmod(".", 0o777).unwrap();
    let act = |p: &Place| {
        let file = p.create("f", OFlags::RDWR, 0o000).unwrap();
        assert_eq!(rustix::io::write(&file, b"content"), Ok(7));
        let mut back = [0; 7];
        assert_eq!(rustix::io::pread(&file, &mut back, 0), Ok(7));
        assert_eq!(&back, b"content");
    };
    match rustix::process::geteuid().is_root() {
        true => p.as_user(1000, 1000, &[], act),
        false => act(p),
    }
}

fn directories_are_not_opened_for_writing(p: &Place) {
    p.mkdir("d", 0o755).unwrap();
    fails(p.open("d", OFlags::WRONLY), Errno::ISDIR);
    fails(p.open("d", OFlags::RDWR), Errno::ISDIR);
    fails(p.create("d", OFlags::WRONLY, 0o644), Errno::ISDIR);
}

fn nofollow_refuses_links(p: &Place) {
    p.write("f", "");
    p.symlink("f", "l").unwrap();
    fails(p.open("l", OFlags::RDONLY | OFlags::NOFOLLOW), Errno::LOOP);
    p.open("f", OFlags::RDONLY | OFlags::NOFOLLOW).unwrap();
}

fn the_directory_flag_refuses_files(p: &Place) {
    p.write("f", "");
    fails(
        p.open("f", OFlags::RDONLY | OFlags::DIRECTORY),
        Errno::NOTDIR,
    );
}

fn a_path_descriptor_cannot_read(p: &Place) {
    p.write("f", "content");
    let file = p.open("f", OFlags::PATH).unwrap();
    fails(rustix::io::read(&file, &mut [0; 4]), Errno::BADF);
    assert_eq!(fstat(&file).unwrap().st_size, 7);
}

fn a_new_directory_has_two_links(p: &Place) {
    p.mkdir("d", 0o751).unwrap();
    let stat = p.stat("d").unwrap();
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Directory);
    assert_eq!((stat.st_nlink, stat.st_mode & 0o7777), (2, 0o751));
    assert_eq!(p.inside("d").unwrap().names(), [""; 0]);
}

fn mkdir_refuses_what_exists(p: &Place) {
    p.write("f", "");
    p.mkdir("d", 0o755).unwrap();
    p.symlink("nothing", "l").unwrap();
    for name in ["f", "d", "l", ".", ".."] {
        fails(p.mkdir(name, 0o755), Errno::EXIST);
    }
}

fn mkdir_of_a_directory_in_nothing_is_enoent(p: &Place) {
    fails(p.mkdir("d/e", 0o755), Errno::NOENT);
}

fn a_group_id_directory_gives_its_group(p: &Place) {
    let d = p.directory("d", 0o2777);
    p.chown("d", None, Some(3000)).unwrap();
    p.chmod("d", 0o2777).unwrap();
    d.as_user(1000, 1000, &[], |d| {
        d.write("f", "");
        d.mkdir("e", 0o755).unwrap();
    });
    assert_eq!(d.owner("f"), (1000, 3000));
    assert_eq!(d.mode("f"), 0o644);
    assert_eq!(d.owner("e"), (1000, 3000));
    assert_eq!(d.mode("e"), 0o2755);
}

fn a_group_id_bit_needs_membership(p: &Place) {
    let d = p.directory("d", 0o777);
    p.chown("d", None, Some(3000)).unwrap();
    p.chmod("d", 0o2777).unwrap();
    d.as_user(1000, 1000, &[], |d| {
        d.create("f", OFlags::WRONLY, 0o2755).unwrap();
    });
    assert_eq!(d.owner("f"), (1000, 3000));
    assert_eq!(d.mode("f"), 0o755);
}

fn pipes_carry_bytes(p: &Place) {
    p.make_node("p", FileType::Fifo, 0o600, (0, 0)).unwrap();
    let stat = p.stat("p").unwrap();
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Fifo);
    let reader = p.open("p", OFlags::RDONLY | OFlags::NONBLOCK).unwrap();
    let writer = p.open("p", OFlags::WRONLY).unwrap();
    assert_eq!(rustix::io::write(&writer, b"through"), Ok(7));
    let mut got = [0; 16];
    assert_eq!(rustix::io::read(&reader, &mut got), Ok(7));
    assert_eq!(&got[..7], b"through");
}

fn sockets_are_bound_and_connected(p: &Place) {
    let listener = UnixListener::bind(p.path("s")).expect("binding");
    let stat = p.stat("s").unwrap();
    assert_eq!(FileType::from_raw_mode(stat.st_mode), FileType::Socket);
    let mut near = UnixStream::connect(p.path("s")).expect("connecting");
    let (mut far, _) = listener.accept().expect("accepting");
    near.write_all(b"hello").unwrap();
    drop(near);
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"hello");
}

fn device_nodes_keep_their_numbers(p: &Place) {
    for (name, kind) in [
        ("c", FileType::CharacterDevice),
        ("b", FileType::BlockDevice),
    ] {
        p.make_node(name, kind, 0o600, (259, 70_000)).unwrap();
        let stat = p.lstat(name).unwrap();
        assert_eq!(FileType::from_raw_mode(stat.st_mode), kind);
        let device = stat.st_rdev;
        assert_eq!(
            (rustix::fs::major(device), rustix::fs::minor(device)),
            (259, 70_000)
        );
    }
}

fn mknod_refuses_what_exists(p: &Place) {
    p.make_node("f", FileType::RegularFile, 0o600, (0, 0))
        .unwrap();
    assert_eq!(p.read("f"), b"");
    fails(
        p.make_node("f", FileType::Fifo, 0o600, (0, 0)),
        Errno::EXIST,
    );
}

fn unnamed_files_have_no_links(p: &Place) {
    let file = p
        .open_mode(".", OFlags::TMPFILE | OFlags::RDWR, 0o640)
        .unwrap();
    assert_eq!(rustix::io::write(&file, b"content"), Ok(7));
    let stat = fstat(&file).unwrap();
    assert_eq!(
        (stat.st_nlink, stat.st_size, stat.st_mode & 0o7777),
        (0, 7, 0o640)
    );
    assert_eq!(p.names(), [""; 0]);
}

fn an_unnamed_file_gets_a_name(p: &Place) {
    let file = p
        .open_mode(".", OFlags::TMPFILE | OFlags::RDWR, 0o640)
        .unwrap();
    assert_eq!(rustix::io::write(&file, b"content"), Ok(7));
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, &unnamed, p.dir(), "named", AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(p.read("named"), b"content");
    assert_eq!(p.nlink("named"), 1);
}

fn an_exclusive_unnamed_file_gets_none(p: &Place) {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL;
    let file = p.open_mode(".", flags, 0o640).unwrap();
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    let outcome = linkat(CWD, &unnamed, p.dir(), "named", AtFlags::SYMLINK_FOLLOW);
    fails(outcome, Errno::NOENT);
}

fn an_unnamed_file_is_for_writing(p: &Place) {
    fails(
        p.open_mode(".", OFlags::TMPFILE | OFlags::RDONLY, 0o640),
        Errno::INVAL,
    );
    p.write("f", "");
    fails(
        p.open_mode("f", OFlags::TMPFILE | OFlags::RDWR, 0o640),
        Errno::NOTDIR,
    );
}
