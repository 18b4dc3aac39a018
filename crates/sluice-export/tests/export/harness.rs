//! An exported temporary directory, and short forms of what tests do with it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sluice_export::{Export, ExportOptions};
use sluice_vfs::{
    AccessChecks, AttachOptions, Attached, Attr, AttrMask, Caller, CreateArgs, Created, Ctx,
    DirEntry, DirSink, DirWant, Entry, Errno, FileService, HandleId, Lookup, Name, NewNode,
    NoEvents, NodeId, OpenFlags, Peer, Result, Session, SessionLimits, SliceSource, VecSink,
    WriteArgs,
};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

pub(crate) const ROOT: Ctx<'static> = Ctx::new(Caller::ROOT);
pub(crate) const RDWR: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);

/// A context of an ordinary caller.
pub(crate) fn user(uid: u32, gid: u32, groups: &[u32]) -> Ctx<'_> {
    Ctx::new(Caller {
        uid,
        gid,
        groups,
        pid: 0,
    })
}

pub(crate) fn name(name: &str) -> Name<'_> {
    Name::try_from(name).unwrap()
}

/// How a [`Share`] is made.
pub(crate) struct Terms {
    pub(crate) options: ExportOptions,
    pub(crate) checks: AccessChecks,
    pub(crate) limits: SessionLimits,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            options: ExportOptions::default(),
            checks: AccessChecks::Peer,
            limits: SessionLimits::default(),
        }
    }
}

/// An exported temporary directory with a session on it.
pub(crate) struct Share {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) attached: Attached,
    export: Export,
}

impl Share {
    pub(crate) fn new() -> Self {
        Self::on(Terms::default())
    }

    /// Where the service checks what callers may do.
    pub(crate) fn checked() -> Self {
        Self::on(Terms {
            checks: AccessChecks::Service,
            ..Terms::default()
        })
    }

    pub(crate) fn on(terms: Terms) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let export = Export::open(dir.path(), terms.options).unwrap();
        let attached = attach(&export, terms.checks, terms.limits);
        Share {
            dir,
            attached,
            export,
        }
    }

    /// Another peer of the same export.
    pub(crate) fn another_session(&self) -> Arc<dyn Session> {
        attach(&self.export, AccessChecks::Peer, SessionLimits::default()).session
    }

    pub(crate) fn s(&self) -> &dyn Session {
        &*self.attached.session
    }

    /// Where `name` is on the host.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn find_in(&self, parent: NodeId, child: &str) -> Result<Entry> {
        self.s()
            .lookup(&ROOT, parent, name(child))
            .and_then(Lookup::found)
    }

    pub(crate) fn find(&self, child: &str) -> Result<Entry> {
        self.find_in(NodeId::ROOT, child)
    }

    pub(crate) fn node(&self, child: &str) -> NodeId {
        self.find(child).unwrap().node
    }

    pub(crate) fn create_as(
        &self,
        ctx: &Ctx<'_>,
        parent: NodeId,
        child: &str,
        flags: OpenFlags,
    ) -> Result<Created> {
        let new = NewNode::with_perm(0o644);
        let args = CreateArgs { flags, new };
        self.s().create(ctx, parent, name(child), &args)
    }

    pub(crate) fn create(&self, child: &str) -> Created {
        self.create_as(&ROOT, NodeId::ROOT, child, RDWR).unwrap()
    }

    pub(crate) fn open(&self, node: NodeId, flags: OpenFlags) -> Result<HandleId> {
        Ok(self.s().open(&ROOT, node, flags)?.handle)
    }

    pub(crate) fn read(&self, node: NodeId, handle: Option<HandleId>) -> Result<Vec<u8>> {
        let mut sink = VecSink::new(1 << 20);
        self.s().read(&ROOT, node, handle, 0, 1 << 20, &mut sink)?;
        Ok(sink.into_bytes())
    }

    pub(crate) fn write(
        &self,
        node: NodeId,
        handle: Option<HandleId>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<usize> {
        let args = WriteArgs {
            offset,
            ..WriteArgs::default()
        };
        let mut source = SliceSource::new(bytes);
        let written = self.s().write(&ROOT, node, handle, &args, &mut source)?;
        Ok(written.len)
    }

    pub(crate) fn attr(&self, node: NodeId) -> Attr {
        let stat = self.s().getattr(&ROOT, node, None, AttrMask::BASIC);
        stat.unwrap().attr
    }

    pub(crate) fn list(&self, node: NodeId, want: DirWant) -> Vec<Listed> {
        let mut sink = ListSink::with_room(usize::MAX);
        self.s()
            .readdir(&ROOT, node, None, 0, want, &mut sink)
            .unwrap();
        sink.entries
    }
}

/// A peer of the export that wants no events.
pub(crate) fn attach(export: &Export, checks: AccessChecks, limits: SessionLimits) -> Attached {
    let options = AttachOptions {
        peer: Peer {
            label: "test".into(),
            checks,
        },
        export: b"",
        events: Arc::new(NoEvents),
        limits,
    };
    export.attach(options).unwrap()
}

/// An entry that a listing pushed.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) ino: u64,
    pub(crate) next_cookie: u64,
    pub(crate) entry: Option<Entry>,
}

/// Takes a number of entries.
pub(crate) struct ListSink {
    pub(crate) entries: Vec<Listed>,
    room: usize,
}

impl ListSink {
    pub(crate) fn with_room(room: usize) -> Self {
        ListSink {
            entries: Vec::new(),
            room,
        }
    }
}

impl DirSink for ListSink {
    fn fits(&self, _: usize) -> bool {
        self.entries.len() < self.room
    }

    fn push(&mut self, entry: &DirEntry<'_>) {
        self.entries.push(Listed {
            name: String::from_utf8(entry.name.to_vec()).unwrap(),
            ino: entry.ino,
            next_cookie: entry.next_cookie,
            entry: entry.entry,
        });
    }
}

/// The error of an outcome that must be one.
#[track_caller]
pub(crate) fn errno<T>(outcome: Result<T>) -> Errno {
    match outcome {
        Ok(_) => panic!("this should have failed"),
        Err(errno) => errno,
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that something was not tested, past the test runner, which keeps what
/// tests that pass have printed to itself.
pub(crate) fn skipped(why: &str) {
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// Ends the test early, and says so, unless it runs as root.
macro_rules! require_root {
    () => {
        if !$crate::harness::is_root() {
            return $crate::harness::skipped("needs root");
        }
    };
}
pub(crate) use require_root;

/// What tells a test that it runs in a process of its own.
const IN_CHILD: &str = "SLUICE_EXPORT_TEST_CHILD";

/// Whether this test runs in the process that [`in_child`] made for it.
pub(crate) fn is_child() -> bool {
    std::env::var_os(IN_CHILD).is_some()
}

/// Runs the test `test` of this binary again, in a process of its own that
/// starts with `command` (the binary is appended), and expects it to pass.
pub(crate) fn in_child(mut command: Command, test: &str) {
    let output = command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(IN_CHILD, "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}\n{stderr}"
    );
}

/// This test binary, to be run as it is.
pub(crate) fn myself() -> Command {
    Command::new("/proc/self/exe")
}

/// This test binary, to be run as an ordinary user.
pub(crate) fn myself_as(uid: u32, gid: u32) -> Command {
    let mut command = myself();
    command.current_dir("/").uid(uid).gid(gid);
    command
}

/// This test binary, to be run with a mount table of its own.
pub(crate) fn myself_with_own_mounts() -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--"])
        .arg(std::env::current_exe().unwrap());
    command
}

/// Limits this process to so many descriptors.
pub(crate) fn narrow_descriptors(count: u64) {
    let limit = getrlimit(Resource::Nofile);
    let narrow = Rlimit {
        current: Some(count),
        ..limit
    };
    setrlimit(Resource::Nofile, narrow).unwrap();
}
