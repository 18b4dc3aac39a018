//! User-mode Linux: the kernel is a program, and its serial lines are our
//! descriptors.

use super::{AttachedServer, Lines, Speech, Wiring, virtio_id};
use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use std::path::Path;
use std::process::Command;

/// The drivers for its lines and its virtio devices are always built in.
pub(super) const MODULES: &[&str] = &[];

pub(super) fn command(kernel: &Path, wiring: &Wiring<'_>) -> Command {
    let mut command = Command::new(kernel);
    command
        .arg(format!("mem={}M", wiring.memory_mib))
        .arg(format!("initrd=/proc/self/fd/{}", wiring.initramfs))
        .arg(format!("uml_dir={}", wiring.dir.display()))
        // Much faster than ptrace, where the host and the kernel have it.
        .arg("seccomp=auto")
        .args(["panic=-1", "con=null", "con0=null,fd:1", "ssl=null"])
        .arg(format!("ssl3=fd:{}", wiring.control));
    match wiring.speech {
        Speech::Terminal(line) => {
            command.arg(format!("ssl0=fd:{line}"));
        }
        Speech::Streams {
            stdin,
            stdout,
            stderr,
        } => {
            // Not `,null` for the other direction: it cannot be polled, and then
            // the kernel polls neither.
            command.arg(format!("ssl0=fd:{stdin}"));
            command.arg(format!("ssl1=null,fd:{stdout}"));
            command.arg(format!("ssl2=null,fd:{stderr}"));
        }
    }
    for share in wiring.shares {
        // Others were refused.
        if let AttachedServer::VhostUser { kind, socket } = &share.server {
            let (socket, id) = (socket.display(), virtio_id(*kind));
            command.arg(format!("virtio_uml.device={socket}:{id}"));
        }
    }
    if let Some((socket, mtu)) = wiring.network {
        command.arg(format!("vec0:transport=fd,fd={socket},mtu={mtu}"));
        // Its checksums may be computed from words that reach beyond the end of
        // memory. There the initramfs lies, and no packet as long as that stays.
        command.arg("retain_initrd");
    }
    command.args(wiring.kernel_arguments);
    // Its own choice for the file that is the guest's memory is /dev/shm, which
    // containers have small and not executable.
    let has_choice = ["TMPDIR", "TMP", "TEMP"]
        .map(std::env::var_os)
        .iter()
        .any(Option::is_some);
    if !has_choice && !statvfs("/dev/shm").is_ok_and(|shm| can_hold(&shm, wiring.memory_mib)) {
        command.env("TMPDIR", "/tmp");
    }
    command
}

fn can_hold(file_system: &StatVfs, memory_mib: u32) -> bool {
    let free_bytes = file_system.f_bavail.saturating_mul(file_system.f_frsize);
    !file_system.f_flag.contains(StatVfsMountFlags::NOEXEC)
        && free_bytes >= u64::from(memory_mib) << 20
}

pub(super) fn lines(on_terminal: bool) -> Lines {
    Lines {
        control: "/dev/ttyS3",
        speech: if on_terminal {
            Speech::Terminal("/dev/ttyS0")
        } else {
            Speech::Streams {
                stdin: "/dev/ttyS0",
                stdout: "/dev/ttyS1",
                stderr: "/dev/ttyS2",
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_where_it_fits_and_can_run() {
        let mut shm = statvfs("/proc").unwrap();
        shm.f_flag = StatVfsMountFlags::empty();
        (shm.f_frsize, shm.f_bavail) = (4096, 64 * 256);
        assert!(can_hold(&shm, 64));
        assert!(!can_hold(&shm, 65));
        shm.f_flag = StatVfsMountFlags::NOEXEC;
        assert!(!can_hold(&shm, 64));
        shm.f_flag = StatVfsMountFlags::empty();
        (shm.f_frsize, shm.f_bavail) = (u64::MAX, u64::MAX);
        assert!(can_hold(&shm, u32::MAX));
    }
}
