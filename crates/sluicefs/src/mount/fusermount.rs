//! Mounting as an ordinary user, through the set-uid helper fusermount3(1).

use super::MAX_MESSAGE_BYTES;
use super::options::MountOptions;
use crate::failure::Failure;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};
use std::ffi::OsString;
use std::io::{self, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const HELPER: &str = "fusermount3";

/// Mounts and returns the `/dev/fuse` descriptor that the helper hands back.
pub(super) fn mount(
    source: &str,
    target: &Path,
    options: &MountOptions,
) -> Result<OwnedFd, Failure> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|errno| Failure::new(format!("cannot make a socket pair: {errno}")))?;
    // The helper answers on the descriptor named in the environment; its
    // standard input is one that it surely inherits.
    let mut child = Command::new(HELPER)
        .env("_FUSE_COMMFD", "0")
        .arg("-o")
        .arg(option_list(source, options))
        .arg("--")
        .arg(target)
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| helper_missing(&error))?;
    // Reads until the helper's end of the socket is closed: no need to drain stderr first.
    let device = receive_descriptor(ours.as_fd());
    let complaint = wait_for(&mut child);
    match device {
        Ok(Some(device)) => Ok(device),
        Ok(None) => Err(refused(target, &complaint)),
        Err(error) => Err(Failure::from_io("mount on", target, &error)),
    }
}

/// Unmounts, lazily if it is in use.
pub(super) fn unmount(target: &Path) -> io::Result<()> {
    let run = |flags: &str| -> io::Result<bool> {
        let status = Command::new(HELPER)
            .args([flags, "--"])
            .arg(target)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        Ok(status.success())
    };
    if run("-u")? || run("-uz")? {
        return Ok(());
    }
    Err(io::Error::other(format!("{HELPER} -u failed")))
}

fn option_list(source: &str, options: &MountOptions) -> OsString {
    let mut list = format!(
        "fsname={},subtype=sluice,default_permissions,max_read={MAX_MESSAGE_BYTES}",
        source.replace('\\', "\\\\").replace(',', "\\,"),
    );
    if options.lets_others_in() {
        list.push_str(",allow_other");
    }
    for word in options.flag_words() {
        // Implied by the helper for everybody but root, who may not need them said.
        list.push(',');
        list.push_str(word);
    }
    for context in &options.contexts {
        list.push(',');
        list.push_str(context);
    }
    list.into()
}

/// The one descriptor that comes over the socket; `None` if it is closed without.
fn receive_descriptor(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut byte)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptor)
}

/// The helper's last words.
fn wait_for(child: &mut Child) -> String {
    let mut complaint = String::new();
    if let Some(stderr) = &mut child.stderr {
        let _ = stderr.take(4096).read_to_string(&mut complaint);
    }
    let _ = child.wait();
    complaint
}

fn helper_missing(error: &io::Error) -> Failure {
    Failure::new(format!(
        "cannot run {HELPER}: {}",
        crate::failure::system_words(error)
    ))
    .advise("install the fuse3 package, or mount as root")
}

fn refused(target: &Path, complaint: &str) -> Failure {
    let complaint = complaint.trim().trim_start_matches("fusermount3: ");
    let failure = Failure::new(format!(
        "{HELPER} will not mount on '{}': {complaint}",
        target.display()
    ));
    if complaint.contains("user_allow_other") {
        failure.advise("let an administrator set it, or leave allow_other and allow_root out")
    } else if complaint.contains("/dev/fuse: Permission denied") {
        failure.advise("let ordinary users open it (mode 0666 is usual), or mount as root")
    } else {
        failure
    }
}
