//! 9P on sockets: any number of connections, served by threads that they share.
//!
//! | module | duty |
//! |---|---|
//! | `door`, `doors` | sockets that listen, and what is served there |
//! | `hub` | all connections, one crew, and its queue |
//! | `watch` | one epoll, and the thread that sleeps there |
//! | `registry` | the connections that there are |
//! | `memory`, `threads` | what they share, and those that wait for some |
//! | `limits` | what all may take together |
//! | `connection` | a peer's socket and session |
//! | `turn` | whose turn a connection is |
//! | `input` | bytes to messages |
//! | `exchange` | a request until it is answered: where payloads come from and go |
//! | `output` | replies on their way to a peer |
//! | `buffer`, `pipe` | memory in two sizes; content that nobody copies |
//! | `users` | the users of this machine, and whom a peer may be |
//! | `exports` | several services on one address |

mod buffer;
mod connection;
mod door;
mod doors;
mod exchange;
mod exports;
mod hub;
mod input;
mod limits;
mod memory;
mod output;
mod pipe;
mod registry;
mod threads;
mod turn;
mod users;
mod watch;

use super::ServedShare;
use super::listening::Service;
use super::virtio::P9DeviceOptions;
use crate::failure::{Failure, system_words};
use crate::share::SharePolicy;
pub use buffer::held_bytes;
pub(super) use door::Entrance;
use door::{Door, Terms};
use exports::{Export, Exports};
use hub::Hub;
pub use limits::HubLimits;
use sluice_client::Address;
use sluice_crew::Polling;
use sluice_proto::p9::serve::{Bounds, CommonBounds, QidVersion, ServeOptions, Squash, Users};
use sluice_vfs::{AccessChecks, FileService};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use users::HostUsers;

/// Where a share is served over 9P, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P9Share {
    /// Where peers connect; at least one.
    pub addresses: Vec<Address>,
    /// The name under which they attach to it. The path of its directory works
    /// as well, and no name for the first share of an address.
    pub aname: Option<String>,
}

impl P9Share {
    /// The files of its sockets.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.addresses.iter().filter_map(|address| match address {
            Address::Unix(path) => Some(path.as_path()),
            _ => None,
        })
    }
}

/// How 9P is served: the same for all shares of an address, and for the virtio
/// device of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P9Options {
    /// Other machines may connect to an address.
    pub allow_remote: bool,
    /// As whom requests count, and who decides what they may do. Not said, it is
    /// [`Access::User`] on addresses. On a device it is [`Access::Client`], as the
    /// kernel that mounts it checks, unless some are squashed: their rights are not
    /// what that kernel thinks.
    pub access: Option<Access>,
    /// Whose requests are done as someone else.
    pub squash: Squash,
    /// What the version of a qid is made of.
    pub qid_version: QidVersion,
    /// Largest message in bytes, both ways.
    pub msize: u32,
    /// Which reads from addresses send pages of a file as they are.
    pub zero_copy: ZeroCopy,
}

impl P9Options {
    /// For a share's virtio device, whose guest's users are those of `users`.
    pub(super) fn on_device(
        &self,
        policy: &SharePolicy,
        users: &UserBook,
        common: &Arc<CommonBounds>,
    ) -> P9DeviceOptions {
        let access = self.access.unwrap_or(match self.squash {
            Squash::None => Access::Client,
            Squash::Root { .. } | Squash::All { .. } => Access::User,
        });
        P9DeviceOptions {
            serve: self.serve_options(access, policy),
            checks: access.checks(),
            msize: self.msize,
            users: Arc::clone(&users.0) as Arc<dyn Users>,
            common: Arc::clone(common),
        }
    }

    fn access_on_address(&self) -> Access {
        self.access.unwrap_or(Access::User)
    }

    /// These options in the words of the 9P server, with what `policy` says.
    fn serve_options(&self, access: Access, policy: &SharePolicy) -> ServeOptions {
        ServeOptions {
            qid_version: self.qid_version,
            squash: match (access, self.squash) {
                (Access::Any, Squash::None) => HostUsers::own(),
                (_, squash) => squash,
            },
            ..policy.p9_options()
        }
    }
}

impl Default for P9Options {
    fn default() -> Self {
        P9Options {
            allow_remote: false,
            access: None,
            squash: Squash::None,
            qid_version: QidVersion::default(),
            msize: Bounds::default().msize,
            zero_copy: ZeroCopy::Auto,
        }
    }
}

/// As whom requests count, and who decides what they may do; after the mount
/// option of Linux's v9fs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the user whom a Tattach names, with that user's rights here.
    User,
    /// The same, but the client has checked what the user may do.
    Client,
    /// As the user that serves, whoever attaches.
    Any,
}

impl Access {
    /// Who decides, for peers that are believed.
    fn checks(self) -> AccessChecks {
        match self {
            Access::Client => AccessChecks::Peer,
            Access::User | Access::Any => AccessChecks::Service,
        }
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "user" => Ok(Access::User),
            "client" => Ok(Access::Client),
            "any" => Ok(Access::Any),
            _ => Err("access is by user, client or any".to_owned()),
        }
    }
}

/// Which reads send pages of a file as they are, by splice(2), and not by way of
/// a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where it pays off.
    Auto,
    /// None.
    Never,
    /// Those of so many bytes or more.
    From(usize),
}

impl ZeroCopy {
    /// Below it a buffer and one system call are quicker than three.
    const AUTO: usize = 64 * 1024;

    fn splice_from(self) -> usize {
        match self {
            ZeroCopy::Auto => Self::AUTO,
            ZeroCopy::Never => usize::MAX,
            ZeroCopy::From(bytes) => bytes.max(1),
        }
    }
}

impl FromStr for ZeroCopy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "auto" => Ok(ZeroCopy::Auto),
            "never" => Ok(ZeroCopy::Never),
            _ => {
                let bytes = word.parse().map(ZeroCopy::From);
                bytes.map_err(|_| "write auto, never, or a number of bytes".to_owned())
            }
        }
    }
}

/// Refuses shares of one address that cannot be told apart, or want it served
/// in different ways.
pub(super) fn check_addresses(shares: &[ServedShare]) -> Result<(), String> {
    for (index, share) in shares.iter().enumerate() {
        let Some(mine) = &share.p9 else { continue };
        for other in shares.iter().take(index) {
            let Some(theirs) = &other.p9 else { continue };
            let shared = mine
                .addresses
                .iter()
                .find(|at| theirs.addresses.contains(at));
            let Some(address) = shared else { continue };
            if names(share).first() == names(other).first() {
                return Err(format!(
                    "two shares of the same name on {address}: give each an --aname of its own"
                ));
            }
            if share.p9_options != other.p9_options {
                return Err(format!(
                    "shares on {address} differ in --access, --squash, --qid-version, --msize, \
                    --zero-copy or --allow-remote, which are the address's"
                ));
            }
        }
    }
    Ok(())
}

/// By what names a share is attached to; the first is its own.
fn names(share: &ServedShare) -> Vec<Vec<u8>> {
    let aname = share.p9.as_ref().and_then(|p9| p9.aname.as_ref());
    let path = share.dir.as_os_str();
    let names = aname.map(|name| name.as_bytes()).into_iter();
    names.chain([path.as_bytes()]).map(<[u8]>::to_vec).collect()
}

/// Sockets that listen, each with the shares that are served there.
pub(super) struct Entrances(Vec<(Entrance, Vec<usize>)>);

impl Entrances {
    /// Listens wherever shares say.
    ///
    /// # Errors
    /// An address that cannot be had.
    pub(super) fn open(shares: &[ServedShare]) -> Result<Self, Failure> {
        let mut places: Vec<(&Address, Vec<usize>)> = Vec::new();
        for (index, p9) in numbered(shares) {
            for address in &p9.addresses {
                match places.iter_mut().find(|(known, _)| *known == address) {
                    Some((_, indices)) => indices.push(index),
                    None => places.push((address, vec![index])),
                }
            }
        }
        let mut entrances = Vec::new();
        for (address, indices) in places {
            let first = indices.first().and_then(|index| shares.get(*index));
            let allow_remote = first.is_some_and(|share| share.p9_options.allow_remote);
            for entrance in Entrance::open(address, allow_remote)? {
                entrances.push((entrance, indices.clone()));
            }
        }
        Ok(Entrances(entrances))
    }

    /// Leaves removing the sockets' files to another process.
    pub(super) fn leave_files(&mut self) {
        for (entrance, _) in &mut self.0 {
            entrance.leave_file();
        }
    }

    /// The addresses of a share.
    pub(super) fn of(&self, share: usize) -> impl Iterator<Item = &Address> {
        let here = self
            .0
            .iter()
            .filter(move |(_, indices)| indices.contains(&share));
        here.map(|(entrance, _)| entrance.address())
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn numbered(shares: &[ServedShare]) -> impl Iterator<Item = (usize, &P9Share)> {
    let all = shares.iter().enumerate();
    all.filter_map(|(index, share)| Some((index, share.p9.as_ref()?)))
}

/// What is known of users, to be read before the process loses sight of it.
pub(super) struct UserBook(Arc<HostUsers>);

impl UserBook {
    /// The users of this machine.
    pub(super) fn load() -> Self {
        UserBook(Arc::new(HostUsers::load()))
    }
}

/// Connections over 9P, until dropped: then each ends after the requests that
/// are being worked on.
pub struct Serving(Hub);

impl Serving {
    /// Serves `service` on a unix socket at `socket`, whose file goes in the end.
    ///
    /// # Errors
    /// A socket that cannot be had.
    pub fn start(
        service: Arc<dyn FileService>,
        socket: &Path,
        options: &P9Options,
    ) -> Result<Self, Failure> {
        Serving::start_within(service, socket, options, HubLimits::default())
    }

    /// The same, with other limits.
    ///
    /// # Errors
    /// As [`Serving::start`].
    pub fn start_within(
        service: Arc<dyn FileService>,
        socket: &Path,
        options: &P9Options,
        limits: HubLimits,
    ) -> Result<Self, Failure> {
        let common = limits.common();
        let terms = || Terms {
            service: Arc::clone(&service),
            options: *options,
            serve: options.serve_options(options.access_on_address(), &SharePolicy::default()),
            users: Arc::new(HostUsers::load()),
            common: Arc::clone(&common),
        };
        let entrances = Entrance::open(&Address::Unix(socket.to_owned()), false)?;
        let doors = entrances
            .into_iter()
            .map(|entrance| Door::new(entrance, terms()));
        Serving::at_doors(doors.collect(), Polling::default(), limits, || {})
    }

    /// Serves shares at their entrances, within `common` bounds. `on_last` is called when
    /// nothing listens and the last connection has ended.
    ///
    /// # Errors
    /// No thread, or no memory.
    pub(super) fn start_all(
        entrances: Entrances,
        shares: &[Service<'_>],
        users: &UserBook,
        common: &Arc<CommonBounds>,
        on_last: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let door = |(entrance, indices): (Entrance, Vec<usize>)| {
            let here: Vec<_> = indices
                .iter()
                .filter_map(|index| shares.get(*index))
                .collect();
            Some(Door::new(entrance, terms(&here, users, common)?))
        };
        let polling = shares.iter().find(|(share, _)| share.p9.is_some());
        let polling = polling.map_or(Polling::default(), |(share, _)| share.poll);
        let doors = entrances.0.into_iter().filter_map(door).collect();
        Serving::at_doors(doors, polling, HubLimits::default(), on_last)
    }

    fn at_doors(
        doors: Vec<Door>,
        polling: Polling,
        limits: HubLimits,
        on_last: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Failure> {
        let hub = Hub::start(doors, polling, limits, on_last)
            .map_err(|error| Failure::new(format!("cannot serve 9P: {}", system_words(&error))))?;
        Ok(Serving(hub))
    }

    /// Asks it to stop; does not wait.
    pub(super) fn stop(&self) {
        self.0.stop();
    }
}

/// How these shares are served together.
fn terms(shares: &[&Service<'_>], users: &UserBook, common: &Arc<CommonBounds>) -> Option<Terms> {
    let (first, _) = shares.first()?;
    let options = first.p9_options;
    let export = |(share, service): &&Service<'_>| Export {
        names: names(share),
        service: Arc::clone(service),
    };
    let service = Exports::new(shares.iter().map(export).collect());
    Some(Terms {
        service: Arc::new(service),
        options,
        serve: options.serve_options(options.access_on_address(), &first.policy),
        users: Arc::clone(&users.0),
        common: Arc::clone(common),
    })
}
