//! 9P on virtio in one guest under QEMU, which has mounted the same directory from
//! Sluice, from QEMU's own server and from one that answers from memory, with the same
//! options, nothing cached.

mod work;

use super::contest::{self, Cell, Contestant, Entrant, Extent, Meter, Placement, Role, Unit};
use super::error::{BenchError, Context};
use super::guest::parse_done;
use super::interrupt;
use super::programs::Programs;
use super::report::Table;
use super::server::{CpuClock, Server};
use sluicefs::sandbox::{
    Guest, GuestShare, GuestStdio, MachineChoice, MachineKind, RunningGuest, ShareSource,
    Virtio9pServer,
};
use sluicefs::serve::Tag;
use std::cell::RefCell;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use tempfile::TempDir;
pub use work::obey;

const OPTIONS: &str = "cache=none,access=client";

/// Everybody who takes part, in the order of the table.
const ENTRANTS: &[(&str, Role, Who)] = &[
    ("sluice", Role::Subject, Who::Sluice),
    ("sluice again", Role::Control, Who::Sluice),
    ("QEMU", Role::Peer, Who::Qemu),
    ("null server", Role::Floor, Who::Null),
];

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// One process for all of its mounts.
    Sluice,
    /// The machine itself.
    Qemu,
    /// A process that answers from memory.
    Null,
}

/// A cell that has the guest do the work of this name.
macro_rules! cell {
    ($name:literal, $unit:expr) => {
        Cell {
            name: $name,
            unit: $unit,
            burst: |mount, meter| mount.run($name, meter),
        }
    };
}

const CELLS: &[Cell<Mounted>] = &[
    cell!("stat", Unit::Operation),
    cell!("stat, missing", Unit::Operation),
    cell!("open + close", Unit::Operation),
    cell!("create + close", Unit::Operation),
    cell!("pread 4K", Unit::Operation),
    cell!("pwrite 4K", Unit::Operation),
    cell!("read 1M", Unit::Bandwidth(1 << 20)),
    cell!("write 1M", Unit::Bandwidth(1 << 20)),
];

/// Measures all cells, on a share below `parent`.
///
/// # Errors
/// When there is no QEMU, or Sluice does not start.
pub fn run(
    programs: &Programs,
    parent: &Path,
    extent: &Extent,
) -> Result<Option<Table>, BenchError> {
    if extent.of(CELLS).next().is_none() {
        return Ok(None);
    }
    let scene = Scene::start(programs, parent)?;
    let talk = Rc::new(RefCell::new(scene.talk));
    let mut entrants: Vec<Entrant<Mounted>> = ENTRANTS
        .iter()
        .enumerate()
        .map(|(number, &(label, role, who))| Entrant {
            label: label.to_owned(),
            role,
            contestant: Mounted {
                talk: Rc::clone(&talk),
                at: mount_point(number),
                clock: match who {
                    Who::Sluice => scene.sluice.cpu_clock(),
                    Who::Null => scene.null.cpu_clock(),
                    // Its threads are the guest's, too.
                    Who::Qemu => CpuClock::none(),
                },
            },
        })
        .collect();
    let progress = |cell| eprintln!("bench: QEMU, 9P on virtio: {cell}");
    let rows = contest::hold(CELLS, &mut entrants, extent, progress);
    Ok(Some(Table {
        title: "9P on virtio, in a guest under QEMU".to_owned(),
        notes: vec![format!(
            "{}; one guest with a mount for each, {OPTIONS}, messages of up to 500 KiB, in which \
             Linux 7.2 puts one page of a read or write; QEMU's server with \
             security_model=none; the null server holds a copy of the share in memory; of floor: \
             how much of the way from QEMU to the null server is done",
            scene.machine
        )],
        entrants: entrants
            .into_iter()
            .map(|entrant| (entrant.label, entrant.role))
            .collect(),
        rows,
    }))
}

fn mount_point(number: usize) -> String {
    format!("/mnt/{number}")
}

/// A directory, its server, and the guest.
struct Scene {
    talk: Talk,
    sluice: Server,
    null: Server,
    machine: String,
    _folder: TempDir,
}

impl Scene {
    fn start(programs: &Programs, parent: &Path) -> Result<Self, BenchError> {
        interrupt::check()?;
        let folder = tempfile::Builder::new()
            .prefix("sluice-bench-")
            .tempdir_in(parent)
            .context(parent.display())?;
        let beside = |name: &str| folder.path().join(name);
        let share = beside("share");
        work::fill(&share, ENTRANTS.len()).context("making the share")?;
        fs::create_dir(beside("tools"))?;
        fs::copy(&programs.bench, beside("tools/bench")).context("the guest's tools")?;
        let devices = devices_of(Who::Sluice, folder.path())?;
        let sluice = start(sluice(programs, &share, &devices), &devices, &beside("log"))?;
        let devices = devices_of(Who::Null, folder.path())?;
        let null = start(
            null(programs, &share, &devices),
            &devices,
            &beside("null.log"),
        )?;
        let mut guest = guest(programs, &beside("tools"));
        for (number, &(_, _, who)) in ENTRANTS.iter().enumerate() {
            let server = match who {
                Who::Sluice | Who::Null => Virtio9pServer::Socket {
                    socket: socket(folder.path(), number),
                    tag: tag(number)?,
                },
                Who::Qemu => Virtio9pServer::Qemu { dir: share.clone() },
            };
            guest.shares.push(GuestShare {
                source: ShareSource::Virtio9p {
                    server,
                    options: OPTIONS.to_owned(),
                },
                at: mount_point(number).into(),
                read_only: false,
            });
        }
        let machine = guest.machine.probe().map_err(said)?;
        Ok(Scene {
            talk: Talk::start(&guest)?,
            sluice,
            null,
            machine,
            _folder: folder,
        })
    }
}

fn tag(number: usize) -> Result<Tag, BenchError> {
    format!("bench{number}").parse().map_err(BenchError::new)
}

/// Where a process has a device, and its name.
type DeviceAt = (PathBuf, Tag);

/// The devices of one who serves, with sockets in `folder`.
fn devices_of(who: Who, folder: &Path) -> Result<Vec<DeviceAt>, BenchError> {
    let mounts = ENTRANTS.iter().enumerate();
    let its = mounts.filter(|(_, (_, _, its))| *its == who);
    let device = |(number, _)| Ok((socket(folder, number), tag(number)?));
    its.map(device).collect()
}

fn socket(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.sock"))
}

fn sluice(programs: &Programs, share: &Path, devices: &[DeviceAt]) -> Command {
    let mut command = Command::new(&programs.sluice);
    command.arg("serve");
    for (index, (socket, tag)) in devices.iter().enumerate() {
        command.args((index > 0).then_some("--and")).arg(share);
        command.arg("--virtio-9p").arg(socket);
        command.args(["--tag", tag.as_str()]);
    }
    command
}

fn null(programs: &Programs, share: &Path, devices: &[DeviceAt]) -> Command {
    let mut command = Command::new(&programs.bench);
    command.arg("null-device9p");
    for (socket, tag) in devices {
        command.arg(socket).arg(share).arg(tag.as_str());
    }
    command
}

/// Waits until all of its devices are there.
fn start(command: Command, devices: &[DeviceAt], log: &Path) -> Result<Server, BenchError> {
    let mut server = Server::start(command, log)?;
    let is_socket = |path: &Path| fs::metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let is_ready = || devices.iter().all(|(socket, _)| is_socket(socket));
    server.wait_until(|| is_ready().then_some(()))?;
    Ok(server)
}

/// With the lab's root, and this program in it.
fn guest(programs: &Programs, tools: &Path) -> Guest {
    let mut guest = Guest::new(["/tools/bench", "in-qemu"])
        .root(programs.lab.join("root"))
        .share(tools, "/tools");
    guest.machine = MachineChoice {
        kind: MachineKind::Qemu,
        lab_cache: Some(programs.lab.clone()),
        ..MachineChoice::default()
    };
    guest.memory_mib = 256;
    guest.workdir = Some("/".into());
    guest
}

/// A running guest that is told what to do.
struct Talk {
    answers: BufReader<PipeReader>,
    orders: PipeWriter,
    _running: RunningGuest,
}

impl Talk {
    fn start(guest: &Guest) -> Result<Self, BenchError> {
        let (input, orders) = io::pipe()?;
        let (answers, output) = io::pipe()?;
        let stdio = GuestStdio::Streams {
            stdin: Box::new(input),
            stdout: Box::new(output),
            stderr: Box::new(io::stderr()),
        };
        let mut running = guest.start(stdio).map_err(said)?;
        running.wait_until_ready().map_err(said)?;
        Ok(Talk {
            answers: BufReader::new(answers),
            orders,
            _running: running,
        })
    }

    fn ask(&mut self, order: &str) -> Result<String, BenchError> {
        writeln!(self.orders, "{order}").context("the guest")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("the guest")?;
        let answer = answer.strip_suffix('\n');
        Ok(answer
            .ok_or(BenchError::new("the guest is gone"))?
            .to_owned())
    }
}

/// A mount in the guest.
struct Mounted {
    talk: Rc<RefCell<Talk>>,
    at: String,
    clock: CpuClock,
}

impl Mounted {
    fn run(&mut self, name: &str, meter: &mut Meter) -> Result<(), BenchError> {
        let order = format!("{} {name}", self.at);
        meter.remote(|| {
            let measured = parse_done(&self.talk.borrow_mut().ask(&order)?)?;
            Ok((measured.operations, measured.ns))
        })
    }
}

impl Contestant for Mounted {
    fn cpu_clock(&self) -> CpuClock {
        self.clock
    }

    /// The machine's threads are everybody's.
    fn place(&mut self, _: Placement) -> Result<(), BenchError> {
        Ok(())
    }
}

fn said(error: impl std::fmt::Display) -> BenchError {
    BenchError::new(error.to_string())
}
