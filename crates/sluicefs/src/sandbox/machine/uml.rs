//! User-mode Linux: the kernel is a program, and its serial lines are our
//! descriptors.

use super::{Lines, Speech, Wiring};
use std::path::Path;
use std::process::Command;

/// The drivers for its lines and its virtio devices are always built in.
pub(super) const MODULES: &[&str] = &[];

/// The number of a virtio-fs device (Virtual I/O Device 1.3, 5.11.1).
const VIRTIO_ID_FS: u32 = 26;

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
        let socket = share.socket.display();
        command.arg(format!("virtio_uml.device={socket}:{VIRTIO_ID_FS}"));
    }
    command.args(wiring.kernel_arguments);
    command
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
