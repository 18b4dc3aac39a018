//! Cache modes and options of a share under the real kernel: what it asks for
//! and what it doesn't have to.

mod common;

use common::mount::{Counted, Mount, mount_words};
use common::{run, skip, status_and_line, text};
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use sluice_virtio::memory::{GuestMemory, Region, RegionSpec};
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

/// Looks three times for a name that isn't there.
fn look_in_vain(target: &Path) {
    for _ in 0..3 {
        assert!(!target.join("missing").exists());
    }
}

#[test]
fn a_missing_name_is_asked_for_once() {
    for options in [
        "cache=auto,negtimeout=-1",
        "cache=metadata",
        "cache=always",
        "cache=never,negtimeout=-1",
    ] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        assert_eq!(mount.count("Lookup", look_in_vain), 1, "{options}");
        // One that the kernel makes is no longer missing.
        fs::write(mount.mount.target.join("missing"), "made").unwrap();
        let made = fs::read(mount.mount.target.join("missing"));
        assert_eq!(made.unwrap(), b"made", "{options}");
    }
}

#[test]
fn a_missing_name_is_asked_for_each_time_where_nothing_may_be_kept() {
    for options in ["cache=never", "cache=always,negtimeout=0"] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        assert_eq!(mount.count("Lookup", look_in_vain), 3, "{options}");
        fs::write(mount.mount.export.join("missing"), "").unwrap();
        assert!(mount.mount.target.join("missing").exists(), "{options}");
    }
}

/// Opens, reads and closes.
fn read_file(target: &Path) {
    let file = File::open(target.join("file")).unwrap();
    let mut content = [0; 7];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"content");
}

#[test]
fn with_always_opening_and_closing_send_no_message() {
    let Some(mount) = Counted::new("cache=always") else {
        return;
    };
    fs::write(mount.mount.export.join("file"), "content").unwrap();
    let first = mount.requests(read_file);
    assert!(first.contains(&"Open".to_owned()), "{first:?}");
    assert_eq!(mount.requests(read_file), [""; 0]);
    // Before it writes the kernel looks for capabilities that have to go.
    let changes = |action: fn(&Path)| {
        let mut requests = mount.requests(action);
        requests.retain(|opcode| opcode != "Getxattr");
        requests
    };
    let written = changes(|target| {
        let file = File::options().append(true).open(target.join("file"));
        file.unwrap().write_all(b" and more").unwrap();
    });
    assert_eq!(written, ["Write"]);
    let made = changes(|target| {
        let mut file = File::create_new(target.join("new")).unwrap();
        file.write_all(b"new").unwrap();
    });
    assert_eq!(made, ["Lookup", "Create", "Write"]);
    let below = |name| fs::read(mount.mount.export.join(name)).unwrap();
    assert_eq!(below("file"), b"content and more");
    assert_eq!(below("new"), b"new");
}

#[test]
fn what_was_open_when_it_was_removed_is_there_without_a_handle() {
    let Some(mount) = Mount::new("cache=always") else {
        return;
    };
    let path = mount.target.join("file");
    fs::write(&path, "content").unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.write_all_at(b"CON", 0).unwrap();
    file.sync_all().unwrap();
    // Past what the kernel has cached.
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut content = [0; 7];
    file.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"CONtent");

    // So is what never had a name, and what nobody may write to.
    let unnamed = OFlags::TMPFILE | OFlags::RDWR;
    let unnamed = File::from(rustix::fs::open(&mount.target, unnamed, Mode::empty()).unwrap());
    unnamed.write_all_at(b"unnamed", 0).unwrap();
    assert_eq!(unnamed.metadata().unwrap().len(), 7);
    let made = OFlags::CREATE | OFlags::WRONLY;
    let made = rustix::fs::open(mount.target.join("ro"), made, Mode::RUSR).unwrap();
    File::from(made).write_all(b"an object of git's").unwrap();
    let below = fs::read(mount.export.join("ro")).unwrap();
    assert_eq!(below, b"an object of git's");
}

#[test]
fn the_hosts_locks_bring_opens_back() {
    let Some(mount) = Counted::new("cache=always,locks=host") else {
        return;
    };
    fs::write(mount.mount.export.join("file"), "content").unwrap();
    mount.requests(read_file);
    // Content is kept from one open to the next.
    let again = mount.requests(read_file);
    assert!(again.contains(&"Open".to_owned()), "{again:?}");
    assert!(!again.contains(&"Read".to_owned()), "{again:?}");
    let file = File::open(mount.mount.target.join("file")).unwrap();
    file.lock().unwrap();
    let below = File::open(mount.mount.export.join("file")).unwrap();
    assert!(below.try_lock().is_err());
}

#[test]
fn locks_that_stay_here_are_not_the_hosts_and_need_no_flush() {
    let Some(mount) = Counted::new("locks=guest") else {
        return;
    };
    fs::write(mount.mount.export.join("file"), "content").unwrap();
    assert_eq!(mount.count("Flush", read_file), 0);
    let writing = mount.count("Flush", |target| {
        fs::write(target.join("file"), "changed").unwrap();
    });
    assert!(writing > 0, "it could tell of an error");
    let open = |dir: &Path| File::open(dir.join("file")).unwrap();
    let (here, also_here) = (open(&mount.mount.target), open(&mount.mount.target));
    here.lock().unwrap();
    assert!(also_here.try_lock().is_err());
    assert!(open(&mount.mount.export).try_lock().is_ok());
}

#[test]
fn content_is_read_again_after_an_open_unless_it_is_kept() {
    for (options, reads) in [
        ("cache=auto", 1),
        ("cache=never", 1),
        ("cache=always,locks=host", 0),
    ] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        fs::write(mount.mount.export.join("file"), "content").unwrap();
        read_file(&mount.mount.target);
        assert_eq!(mount.count("Read", read_file).min(1), reads, "{options}");
    }
}

#[test]
fn without_a_cache_the_hosts_edits_are_seen_at_once() {
    let Some(mount) = Mount::new("cache=never") else {
        return;
    };
    let (above, below) = (mount.target.join("file"), mount.export.join("file"));
    for round in 0..20 {
        let content = "x".repeat(round);
        fs::write(&below, &content).unwrap();
        assert_eq!(fs::metadata(&above).unwrap().len(), round as u64);
        assert_eq!(fs::read_to_string(&above).unwrap(), content);
        fs::remove_file(&below).unwrap();
        assert!(!above.exists());
        assert_eq!(fs::read_dir(&mount.target).unwrap().count(), 0);
    }
}

#[test]
fn a_symlink_is_read_once() {
    let read_links = |target: &Path| {
        for _ in 0..3 {
            assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("to"));
        }
    };
    for (options, times) in [
        ("cache=never", 3),
        ("cache=metadata", 1),
        ("cache=auto", 1),
        ("cache=always", 1),
    ] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        symlink("to", mount.mount.export.join("link")).unwrap();
        assert_eq!(mount.count("Readlink", read_links), times, "{options}");
        // Another link under the same name is another link.
        let link = mount.mount.target.join("link");
        fs::remove_file(&link).unwrap();
        symlink("elsewhere", &link).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("elsewhere"));
    }
}

#[test]
fn a_listing_is_asked_for_once_where_names_are_cached_for_good() {
    let names = |target: &Path| {
        let entries = fs::read_dir(target).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    for options in ["cache=metadata", "cache=always"] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        let target = &mount.mount.target;
        fs::write(mount.mount.export.join("a"), "").unwrap();
        // The kernel keeps a listing that it has seen unchanged once before.
        names(target);
        names(target);
        let again = mount.requests(|target| assert_eq!(names(target), ["a"]));
        assert_eq!(again, [""; 0], "{options}");
        fs::write(target.join("b"), "").unwrap();
        assert_eq!(names(target), ["a", "b"], "{options}");
        fs::rename(target.join("a"), target.join("c")).unwrap();
        assert_eq!(names(target), ["b", "c"], "{options}");
    }
}

#[test]
fn listings_bring_attributes_unless_that_is_forbidden() {
    for (options, is_plus) in [("cache=auto", true), ("cache=auto,no_readdirplus", false)] {
        let Some(mount) = Counted::new(options) else {
            return;
        };
        fs::write(mount.mount.export.join("a"), "").unwrap();
        let list = |target: &Path| assert_eq!(fs::read_dir(target).unwrap().count(), 1);
        let requests = mount.requests(list);
        let has = |opcode: &str| requests.iter().any(|one| one == opcode);
        assert_eq!(has("Readdirplus"), is_plus, "{options}: {requests:?}");
        assert!(has("Readdir") || is_plus, "{options}: {requests:?}");
    }
}

/// Stores through a shared mapping of a file's first page.
fn store(file: &File, bytes: &[u8]) -> Result<(), String> {
    let spec = RegionSpec {
        guest_addr: 0,
        user_addr: 0,
        size: 4096,
        file_offset: 0,
    };
    let region = Region::map(spec, file.as_fd()).map_err(|error| error.to_string())?;
    let memory = GuestMemory::default().with(region).unwrap();
    memory.write(0, bytes).unwrap();
    Ok(())
}

#[test]
fn files_are_mapped_for_sharing_unless_that_is_forbidden() {
    for (options, is_allowed) in [
        ("cache=never", true),
        ("cache=metadata", true),
        ("cache=never,no_allow_mmap", false),
        ("cache=metadata,no_allow_mmap", false),
        ("cache=auto,no_allow_mmap", true),
        ("cache=always", true),
    ] {
        let Some(mount) = Mount::new(options) else {
            return;
        };
        fs::write(mount.export.join("file"), [b'.'; 4096]).unwrap();
        let path = mount.target.join("file");
        let file = File::options().read(true).write(true).open(path).unwrap();
        let outcome = store(&file, b"stored");
        assert_eq!(outcome.is_ok(), is_allowed, "{options}: {outcome:?}");
        if is_allowed {
            file.sync_all().unwrap();
            let below = fs::read(mount.export.join("file")).unwrap();
            assert_eq!(&below[..7], b"stored.", "{options}");
        }
    }
}

/// Flags of the descriptor with which the daemon has `file` open.
fn daemons_flags(mount: &Mount, file: &Path) -> OFlags {
    let process = Path::new("/proc").join(mount.daemon.0.id().to_string());
    let flags = |fd: fs::DirEntry| {
        let name = fd.file_name();
        let info = fs::read_to_string(process.join("fdinfo").join(name)).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = OFlags::from_bits_retain(u32::from_str_radix(flags.trim(), 8).ok()?);
        let is_file = fs::read_link(fd.path()).is_ok_and(|path| path == file);
        (is_file && !flags.contains(OFlags::PATH)).then_some(flags)
    };
    let mut open = fs::read_dir(process.join("fd")).unwrap();
    let found = open.find_map(|fd| flags(fd.unwrap()));
    found.expect("the daemon has the file open")
}

#[test]
fn o_direct_reaches_the_host_where_that_is_allowed() {
    for (options, is_direct) in [
        ("cache=auto", false),
        ("cache=auto,allow_direct_io", true),
        ("cache=never,allow_direct_io", true),
        ("cache=always,allow_direct_io", true),
    ] {
        let Some(mount) = Mount::new(options) else {
            return;
        };
        let below = mount.export.join("file");
        fs::write(&below, [b'.'; 4096]).unwrap();
        let direct = OFlags::RDWR | OFlags::DIRECT;
        let file = rustix::fs::open(mount.target.join("file"), direct, Mode::empty());
        let file = match file {
            // As it should, where the host's file system has none.
            Err(Errno::INVAL) if is_direct => return skip("no O_DIRECT for temporary files"),
            file => file.unwrap(),
        };
        let flags = daemons_flags(&mount, &below);
        assert_eq!(flags.contains(OFlags::DIRECT), is_direct, "{options}");
        drop(file);
    }
}

fn xattr(path: &Path, name: &str) -> Result<Vec<u8>, Errno> {
    let mut value = [0; 64];
    let len = rustix::fs::getxattr(path, name, &mut value[..])?;
    Ok(value[..len].to_vec())
}

fn xattr_names(path: &Path) -> String {
    let mut names = [0; 1024];
    let len = rustix::fs::listxattr(path, &mut names[..]).unwrap();
    String::from_utf8(names[..len].to_vec()).unwrap()
}

#[test]
fn xattrmap_prefixes_and_hides() {
    let Some(mount) = Mount::new("xattrmap=:map::user.virtiofs.:") else {
        return;
    };
    let (above, below) = (mount.target.join("file"), mount.export.join("file"));
    fs::write(&below, "").unwrap();
    let set = |path, name: &str, value: &str| {
        rustix::fs::setxattr(path, name, value.as_bytes(), XattrFlags::empty())
    };
    set(&below, "user.host", "hidden").unwrap();
    set(&above, "user.a", "1").unwrap();
    set(&above, "trusted.b", "22").unwrap();
    set(&above, "security.selinux", "label").unwrap();

    assert_eq!(xattr(&below, "user.virtiofs.user.a").unwrap(), b"1");
    assert_eq!(xattr(&below, "user.virtiofs.trusted.b").unwrap(), b"22");
    let label = xattr(&below, "user.virtiofs.security.selinux");
    assert_eq!(label.unwrap(), b"label");
    assert_eq!(xattr(&above, "trusted.b").unwrap(), b"22");
    assert_eq!(xattr(&above, "user.host"), Err(Errno::NODATA));
    let mut names: Vec<String> = xattr_names(&above)
        .split_terminator('\0')
        .map(str::to_owned)
        .collect();
    names.sort();
    assert_eq!(names, ["security.selinux", "trusted.b", "user.a"]);

    rustix::fs::removexattr(&above, "user.a").unwrap();
    assert_eq!(xattr(&below, "user.virtiofs.user.a"), Err(Errno::NODATA));
    assert_eq!(
        rustix::fs::removexattr(&above, "user.host"),
        Err(Errno::NODATA)
    );
    assert_eq!(xattr(&below, "user.host").unwrap(), b"hidden");
}

#[test]
fn xattrmap_refuses_what_its_rules_refuse() {
    let rules = "/unsupported/all/security.x/security.x/ /bad/all/user.no/user.no/ \
        /map/trusted./user.virtiofs./";
    let Some(mount) = Mount::new(&format!("xattrmap={rules}")) else {
        return;
    };
    let (above, below) = (mount.target.join("file"), mount.export.join("file"));
    fs::write(&below, "").unwrap();
    rustix::fs::setxattr(&below, "user.no", b"", XattrFlags::empty()).unwrap();
    let set = |name| rustix::fs::setxattr(&above, name, b"value", XattrFlags::empty());
    assert_eq!(set("security.x"), Err(Errno::OPNOTSUPP));
    assert_eq!(xattr(&above, "security.x"), Err(Errno::OPNOTSUPP));
    assert_eq!(set("user.no"), Err(Errno::PERM));
    assert_eq!(xattr(&above, "user.no"), Err(Errno::NODATA));
    assert_eq!(set("user.virtiofs.trusted.x"), Err(Errno::PERM));
    assert_eq!(set("trusted.x"), Ok(()));
    assert_eq!(set("user.yes"), Ok(()));
    assert_eq!(xattr_names(&above), "trusted.x\0user.yes\0");
}

/// A file's capabilities end when somebody writes to it, whatever name they
/// have on the host: its kernel doesn't know them, so this one has to.
#[test]
fn capabilities_under_another_name_end_with_a_write() {
    // VFS_CAP_REVISION_2, with CAP_NET_RAW permitted and effective.
    let capabilities = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for options in [
        "cache=auto",
        "xattrmap=:map::user.virtiofs.:",
        "cache=always,xattrmap=:map::user.virtiofs.:",
    ] {
        let Some(mount) = Mount::new(options) else {
            return;
        };
        let path = mount.target.join("program");
        fs::write(&path, "#!/bin/true").unwrap();
        let name = "security.capability";
        rustix::fs::setxattr(&path, name, &capabilities, XattrFlags::empty()).unwrap();
        assert_eq!(xattr(&path, name).unwrap(), capabilities, "{options}");
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(b"#!/bin/sh", 0).unwrap();
        assert_eq!(xattr(&path, name), Err(Errno::NODATA), "{options}");
    }
}

#[test]
fn a_remount_changes_how_access_times_are_kept_and_nothing_else() {
    let Some(mount) = Mount::new("noatime") else {
        return;
    };
    for (words, expected) in [
        ("ro", "ro,nosuid,nodev,noatime"),
        ("rw,atime", "rw,nosuid,nodev,relatime"),
        ("noatime", "rw,nosuid,nodev,noatime"),
        ("norelatime", "rw,nosuid,nodev,noatime"),
        ("relatime", "rw,nosuid,nodev,relatime"),
        ("strictatime,nodiratime", "rw,nosuid,nodev,nodiratime"),
        ("diratime", "rw,nosuid,nodev"),
        ("nostrictatime", "rw,nosuid,nodev,relatime"),
    ] {
        let options = format!("remount,{words}");
        let output = run(&["mount", "-o", &options, text(&mount.target)]);
        assert!(output.status.success(), "{output:?}");
        let now = mount_words(&mount.target).unwrap();
        assert_eq!(now, expected, "{words}");
    }
}

#[test]
fn a_remount_refuses_what_only_a_new_mount_can_have() {
    let Some(mount) = Mount::new("cache=never,allow_other,xattrmap=:ok:all:::") else {
        return;
    };
    let remount = |words: &str| {
        let options = format!("remount,{words}");
        run(&["mount", "-o", &options, text(&mount.target)])
    };
    let before = mount_words(&mount.target);
    for (words, named) in [
        ("ro,cache=always", "'cache=always'"),
        ("cache=metadata,ro", "'cache=metadata'"),
        ("poll=off", "'poll=off'"),
        ("xattrmap=:map::user.h.:", "'xattrmap=:map::user.h.:'"),
    ] {
        let (status, line) = status_and_line(&remount(words));
        assert_eq!(status, 1, "{line}");
        assert!(line.contains(named), "{line}");
        assert!(line.contains("unmount it, and mount it again"), "{line}");
        assert_eq!(mount_words(&mount.target), before, "{line}");
    }
    // As mount(8) repeats what fstab(5) says.
    let output = remount("cache=none,allow_other,noauto,ro");
    assert!(output.status.success(), "{output:?}");
    let words = mount_words(&mount.target).unwrap();
    assert!(words.starts_with("ro,"), "{words}");
}
