//! What a mount shows: a directory of this machine, or an export of a 9P server.

use super::options::{MountOptions, Trans};
use crate::failure::{Failure, system_words};
use crate::layers::second_look::SecondLooks;
use crate::layers::xattr_map::XattrMapped;
use crate::remote::{Location, cannot_mount, try_to_attach};
use crate::share;
use sluice_client::{Address, ConnectOptions, Meter, Persistence, RemoteService};
use sluice_proto::fuse::serve::CacheMode;
use sluice_vfs::FileService;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory of this machine.
    Directory(PathBuf),
    /// An export of a server.
    Server {
        /// As it was written, and as the mount table shows it.
        name: String,
        /// Where it is.
        place: Location,
    },
}

/// Where servers listen that do not say otherwise.
const PORT: u16 = 564;

impl Source {
    /// Takes what mount(8) calls the source: the path of a directory, with a
    /// slash or a dot in front, or `ADDRESS[#ANAME][:PATH]`; after `trans=` also
    /// what v9fs calls so.
    ///
    /// # Errors
    /// What is wrong with it, alone or together with `options`.
    pub fn parse(word: &OsStr, options: &MountOptions) -> Result<Self, String> {
        let bytes = word.as_bytes();
        let server = &options.server;
        if let Some(trans) = server.trans {
            return Source::by_trans(word, trans, options);
        }
        if server.port.is_some() {
            return Err("mount option 'port' needs trans=tcp".to_owned());
        }
        if bytes.starts_with(b"/") || bytes.starts_with(b".") {
            let source = Source::Directory(word.into());
            return source.checked(options);
        }
        Source::Server {
            name: word.to_string_lossy().into_owned(),
            place: Location::parse(word).map_err(|why| match bytes.contains(&b':') {
                true => why,
                false => no_source(word),
            })?,
        }
        .checked(options)
    }

    /// The directory of `--export`.
    ///
    /// # Errors
    /// Options that are for servers.
    pub fn directory(dir: &Path, options: &MountOptions) -> Result<Self, String> {
        Source::Directory(dir.to_owned()).checked(options)
    }

    fn by_trans(word: &OsStr, trans: Trans, options: &MountOptions) -> Result<Self, String> {
        let port = options.server.port;
        if port.is_some() && trans != Trans::Tcp {
            return Err("mount option 'port' needs trans=tcp".to_owned());
        }
        let mut address = OsString::from(match trans {
            Trans::Tcp => "tcp:",
            Trans::Unix => "unix:",
            Trans::Fd(Some(_)) => "fd:",
            Trans::Fd(None) => return Err("mount option 'trans=fd' needs rfdno=".to_owned()),
        });
        // An address that says the same already.
        let is_whole = word.as_bytes().starts_with(address.as_bytes());
        match trans {
            _ if is_whole => address = word.to_owned(),
            Trans::Tcp => {
                address.push(word);
                address.push(format!(":{}", port.unwrap_or(PORT)));
            }
            Trans::Unix => address.push(word),
            Trans::Fd(fd) => address.push(fd.unwrap_or_default().to_string()),
        }
        let place = Location::parse(&address)?;
        if let Trans::Fd(Some(fd)) = trans
            && place.export.address != Address::Fd(fd)
        {
            return Err(format!("'{}' is not rfdno={fd}", word.display()));
        }
        if !is_whole && !place.path.as_os_str().is_empty() {
            let word = word.display();
            return Err(format!(
                "'{word}' has a colon in it: write the whole address"
            ));
        }
        let name = word.to_string_lossy().into_owned();
        Source::Server { name, place }.checked(options)
    }

    fn checked(self, options: &MountOptions) -> Result<Self, String> {
        match &self {
            Source::Directory(dir) => match options.server_word() {
                Some(word) => Err(format!(
                    "mount option '{word}' is about servers, and '{}' is a directory",
                    dir.display()
                )),
                None => Ok(self),
            },
            Source::Server { .. } => {
                if options.policy.preserve_noatime {
                    return Err("mount option 'preserve_noatime' is for directories".to_owned());
                }
                Ok(self)
            }
        }
    }

    /// The path that the mount must not be within, if there is one.
    pub(super) fn local_path(&self) -> Option<&Path> {
        match self {
            Source::Directory(dir) => Some(dir),
            Source::Server { .. } => None,
        }
    }

    /// The descriptor that leads to it, if one does.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        match self {
            Source::Server { place, .. } => match place.export.address {
                Address::Fd(number) => Some(number),
                _ => None,
            },
            Source::Directory(_) => None,
        }
    }

    /// Opens it. A server that is not there, or will not have it, is told here.
    ///
    /// # Errors
    /// No such directory or server, or too few rights.
    pub(super) fn open(&self, options: &MountOptions) -> Result<Opened, Failure> {
        match self {
            Source::Directory(dir) => Ok(Opened {
                service: share::open(dir, &options.policy)
                    .map_err(|failure| mistaken_socket(dir, failure))?,
                meter: None,
            }),
            Source::Server { place, .. } => open_server(place, options),
        }
    }
}

/// A path alone is a directory's, and mount(8) makes one of any name that is there.
fn mistaken_socket(path: &Path, failure: Failure) -> Failure {
    let is_socket = path.metadata().is_ok_and(|it| it.file_type().is_socket());
    match is_socket {
        true => failure.advise(format!(
            "for a server's socket write unix:{}",
            path.display()
        )),
        false => failure,
    }
}

/// A word that is neither an address nor, by how it is written, a directory.
fn no_source(word: &OsStr) -> String {
    let word = word.display();
    format!(
        "'{word}' is no address: write ./{word} for a directory, or as the address of a server \
        unix:PATH, tcp:HOST:PORT, vsock:CID:PORT or fd:N"
    )
}

/// A source that was opened.
pub(super) struct Opened {
    /// To be mounted.
    pub(super) service: Arc<dyn FileService>,
    /// Counts what is said to a server.
    pub(super) meter: Option<Arc<Meter>>,
}

fn open_server(place: &Location, options: &MountOptions) -> Result<Opened, Failure> {
    let mut place = place.clone();
    if let ("", Some(aname)) = (&*place.export.aname, &options.server.aname) {
        place.export.aname.clone_from(aname);
    }
    let export = &place.export;
    let has_acls = options.policy.posix_acl != sluice_proto::fuse::serve::Offer::Never;
    let mut service = options.server.service(&export.aname, has_acls);
    if matches!(export.address, Address::Fd(_)) {
        // Once lost, it does not come back.
        service.persistence = Persistence::Soft(Duration::ZERO);
    } else {
        // What is wrong is told better before there is a mount.
        let uncounted = ConnectOptions {
            meter: Arc::default(),
            ..service.connect.clone()
        };
        try_to_attach(&place, &uncounted)?;
    }
    // It is connected to again from elsewhere: the background process goes to the root.
    let address = export.address.clone().absolute().map_err(|error| {
        let words = system_words(&error);
        Failure::new(format!(
            "cannot tell what {} leads to: {words}",
            export.address
        ))
        .advise("write the whole path")
    })?;
    service.connect.dir = place.path.clone();
    let meter = Some(Arc::clone(&service.connect.meter));
    let service = RemoteService::new(address, service);
    let connected = service.connect_ahead();
    connected.map_err(|error| cannot_mount(export, &error))?;
    let service: Arc<dyn FileService> = Arc::new(service);
    let service = match &options.policy.xattr_map {
        Some(map) => Arc::new(XattrMapped::new(service, map.clone())),
        None => service,
    };
    let service: Arc<dyn FileService> = match options.policy.cache {
        CacheMode::Never => Arc::new(SecondLooks::new(service)),
        CacheMode::Metadata | CacheMode::Auto | CacheMode::Always => service,
    };
    Ok(Opened { service, meter })
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Directory(dir) => dir.display().fmt(f),
            Source::Server { name, .. } => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &str, list: &str) -> Result<Source, String> {
        let mut options = MountOptions::default();
        options.add(list).unwrap();
        Source::parse(OsStr::new(word), &options)
    }

    #[test]
    fn a_source_is_a_directory_or_a_server() {
        for (word, options, expected) in [
            ("unix:/run/s#code", "", "unix:/run/s#code"),
            ("tcp:[::1]:564", "aname=code", "tcp:[::1]:564"),
            ("vsock:2:564:/a/b", "", "vsock:2:564"),
            ("fd:3", "", "fd:3"),
            ("10.0.0.2", "trans=tcp", "tcp:10.0.0.2:564"),
            ("host", "trans=tcp,port=5640", "tcp:host:5640"),
            ("tcp:host:5", "trans=tcp", "tcp:host:5"),
            ("/run/s", "trans=unix", "unix:/run/s"),
            ("none", "trans=fd,rfdno=4,wfdno=4", "fd:4"),
            ("fd:4#code", "trans=fd,rfdno=4,wfdno=4", "fd:4#code"),
        ] {
            let Ok(Source::Server { name, place }) = parse(word, options) else {
                panic!("{word} {options}");
            };
            assert_eq!((&*name, &*place.export.to_string()), (word, expected));
        }
        for word in ["/srv", "./srv", "..", "."] {
            assert_eq!(parse(word, "ro"), Ok(Source::Directory(word.into())));
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (word, options, named) in [
            ("/srv", "aname=x", "'aname=x' is about servers"),
            ("/srv", "soft", "'soft' is about servers"),
            ("/srv", "port=5", "needs trans=tcp"),
            ("s", "trans=unix,port=5", "needs trans=tcp"),
            ("x", "trans=fd", "needs rfdno="),
            ("fd:35", "trans=fd,rfdno=3,wfdno=3", "is not rfdno=3"),
            ("/run/s:x", "trans=unix", "has a colon in it"),
            ("unix:s", "preserve_noatime", "is for directories"),
            ("vsock:564", "", "vsock:CID:PORT"),
            (
                "srv",
                "",
                "write ./srv for a directory, or as the address of a server unix:",
            ),
            ("localhost:5640", "", "write tcp:localhost:5640"),
            ("tcp:::1:564#code", "", "in brackets: tcp:[::1]:564"),
        ] {
            let why = parse(word, options).unwrap_err();
            assert!(why.contains(named), "{word} {options}: {why}");
        }
    }
}
