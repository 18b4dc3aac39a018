//! QEMU: a PC with a virtio console for our lines.

use super::{AttachedServer, Attachment, Lines, Speech, Wiring, virtio_id};
use crate::serve::DeviceKind;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

pub(super) const MODULES: &[&str] = &["virtio_pci", "virtio_console"];

pub(super) fn command(program: &Path, kernel: &Path, wiring: &Wiring<'_>) -> Command {
    let memory = wiring.memory_mib;
    let mut command = Command::new(program);
    command
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ])
        .args([
            "-machine",
            "q35,memory-backend=memory",
            "-cpu",
            "max",
            "-smp",
            "1",
        ])
        .args(["-m", &format!("{memory}M")])
        // vhost-user servers map the guest's memory.
        .arg("-object")
        .arg(format!(
            "memory-backend-memfd,id=memory,size={memory}M,share=on"
        ));
    if kvm_works() {
        command.args(["-accel", "kvm"]);
    }
    command
        .args(["-accel", "tcg"])
        .arg("-kernel")
        .arg(kernel)
        .args(["-initrd", &format!("/proc/self/fd/{}", wiring.initramfs)])
        .arg("-append")
        .arg(kernel_command_line(wiring.kernel_arguments))
        .args(line("console", wiring.console))
        .args(["-serial", "chardev:console"])
        // The guest counts its devices: the console comes before the shares.
        .args(["-device", "virtio-serial-pci"]);
    match wiring.speech {
        Speech::Terminal(terminal) => {
            command.args(line("terminal", terminal));
            command.args(["-device", "virtconsole,nr=1,chardev=terminal"]);
        }
        Speech::Streams {
            stdin,
            stdout,
            stderr,
        } => {
            for (nr, name, fd) in [
                (1, "stdin", stdin),
                (2, "stdout", stdout),
                (3, "stderr", stderr),
            ] {
                command.args(line(name, fd));
                command.args(["-device", &format!("virtserialport,nr={nr},chardev={name}")]);
            }
        }
    }
    command
        .args(line("control", wiring.control))
        .args(["-device", "virtserialport,nr=4,chardev=control"]);
    for (nth, share) in wiring.shares.iter().enumerate() {
        command.args(device(nth, share));
    }
    command
}

/// A share's device, and what is behind it.
fn device(nth: usize, share: &Attachment) -> [String; 4] {
    let tag = &share.tag;
    let [behind, device] = match &share.server {
        AttachedServer::VhostUser { kind, socket } => {
            let chardev = format!("socket,id=share{nth},path={}", socket.display());
            let device = match kind {
                DeviceKind::Fs => format!("vhost-user-fs-pci,chardev=share{nth},tag={tag}"),
                // QEMU has no name for a 9P device that others serve.
                DeviceKind::P9 => format!(
                    "vhost-user-test-device-pci,chardev=share{nth},virtio-id={},num_vqs=1,\
                     vq_size={P9_QUEUE_SIZE},config_size={}",
                    virtio_id(*kind),
                    size_of::<u16>() + tag.len(),
                ),
            };
            [
                ["-chardev".to_owned(), chardev],
                ["-device".to_owned(), device],
            ]
        }
        AttachedServer::Machine { dir } => {
            let dir = dir.display();
            let fsdev = format!("local,id=share{nth},path={dir},security_model=none");
            let device = format!("virtio-9p-pci,fsdev=share{nth},mount_tag={tag}");
            [["-fsdev".to_owned(), fsdev], ["-device".to_owned(), device]]
        }
    };
    let ([first, second], [third, fourth]) = (behind, device);
    [first, second, third, fourth]
}

/// As many requests as QEMU's own 9P device takes.
const P9_QUEUE_SIZE: u16 = 128;

/// A connected socket as a character device.
fn line(name: &str, fd: i32) -> [String; 2] {
    ["-chardev".into(), format!("socket,id={name},fd={fd}")]
}

fn kernel_command_line(more: &[String]) -> String {
    let mut words = vec!["console=ttyS0", "panic=-1"];
    words.extend(more.iter().map(String::as_str));
    words.join(" ")
}

/// A device node is no promise: some hosts have one whose machines fail at
/// their first instruction.
fn kvm_works() -> bool {
    let opens = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    opens && std::fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_virtualization(&text))
}

fn has_virtualization(cpuinfo: &str) -> bool {
    cpuinfo
        .lines()
        .filter(|line| line.starts_with("flags"))
        .any(|line| {
            line.split_whitespace()
                .any(|flag| flag == "vmx" || flag == "svm")
        })
}

pub(super) fn lines(on_terminal: bool) -> Lines {
    Lines {
        control: "/dev/vport0p4",
        speech: if on_terminal {
            Speech::Terminal("/dev/hvc0")
        } else {
            Speech::Streams {
                stdin: "/dev/vport0p1",
                stdout: "/dev/vport0p2",
                stderr: "/dev/vport0p3",
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::has_virtualization;

    #[test]
    fn kvm_needs_a_processor_that_says_so() {
        assert!(has_virtualization(
            "processor : 0\nflags\t\t: fpu vmx sse\n"
        ));
        assert!(!has_virtualization("flags\t\t: fpu sse vmxx\nbugs : svm\n"));
    }
}
