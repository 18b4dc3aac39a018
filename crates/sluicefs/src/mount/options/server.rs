//! Words about the 9P server behind a mount, most of them v9fs's.

use crate::mount::caller;
use sluice_client::{Access, ConnectOptions, Dialect, Persistence, ServiceOptions};
use std::time::Duration;

/// How a server is reached and used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Which of its exports; one in the address wins.
    pub aname: Option<String>,
    /// Who asks, for servers that go by names.
    pub uname: Option<String>,
    /// Who asks where all ask as one.
    pub uid: Option<u32>,
    /// As whom requests are sent.
    pub access: Access,
    /// Largest message in bytes.
    pub msize: u32,
    /// The best dialect to offer.
    pub dialect: Dialect,
    /// Payloads from so many bytes on are not copied.
    pub zero_copy_from: usize,
    /// It takes messages in their order.
    pub is_orderly: bool,
    /// Requests fail when the server has been away for the time limit. If not,
    /// they wait.
    pub soft: bool,
    /// How long a reply may take.
    pub time_limit: Duration,
    /// How the source is meant that says nothing of it: v9fs's `trans=`.
    pub trans: Option<Trans>,
    /// Where a server listens whose address does not say.
    pub port: Option<u16>,
}

/// Ways to a server, as v9fs names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trans {
    /// The source is a host.
    Tcp,
    /// The source is the path of a socket.
    Unix,
    /// The source is nothing; this descriptor is a connected socket.
    Fd(Option<i32>),
}

impl Default for ServerOptions {
    fn default() -> Self {
        let connect = ConnectOptions::default();
        ServerOptions {
            aname: None,
            uname: None,
            uid: None,
            access: Access::PerUser,
            msize: connect.msize,
            dialect: Dialect::Sluice,
            zero_copy_from: connect.zero_copy_from,
            is_orderly: false,
            soft: false,
            time_limit: connect.time_limit.unwrap_or(Duration::from_secs(60)),
            trans: None,
            port: None,
        }
    }
}

impl ServerOptions {
    pub(super) const WORDS: &[&str] = &[
        "aname=",
        "uname=",
        "dfltuid=",
        "access=",
        "msize=",
        "version=",
        "zerocopy=",
        "orderly",
        "hard",
        "soft",
        "timeo=",
        "trans=",
        "port=",
        "rfdno=",
        "wfdno=",
    ];

    /// Whether a word with this name is about servers.
    pub(super) fn is_word(name: &str) -> bool {
        let mut words = ServerOptions::WORDS.iter();
        words.any(|known| known.trim_end_matches('=') == name)
    }

    /// Takes one of [`ServerOptions::WORDS`], with the value that it has.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub(super) fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "aname" => self.aname = Some(value.to_owned()),
            "uname" => self.uname = Some(value.to_owned()),
            "dfltuid" => self.uid = Some(number(value, "the number of a user")?),
            "access" => {
                self.access = match value {
                    "user" | "client" => Access::PerUser,
                    "any" => Access::Single,
                    _ => return Err("access is user, client or any".to_owned()),
                };
            }
            "msize" => {
                let bytes = number(value, "a number of bytes from 4096 to 16777216")?;
                if !(4096..=16 << 20).contains(&bytes) {
                    return Err("messages have 4096 to 16777216 bytes".to_owned());
                }
                self.msize = bytes;
            }
            "version" => {
                self.dialect = match value {
                    "9p2000.L.sluice" => Dialect::Sluice,
                    "9p2000.L" => Dialect::Linux,
                    "9p2000.u" => Dialect::Unix,
                    "9p2000" => Dialect::Plan9,
                    _ => {
                        return Err(
                            "versions are 9p2000.L.sluice, 9p2000.L, 9p2000.u and 9p2000"
                                .to_owned(),
                        );
                    }
                };
            }
            "zerocopy" => {
                self.zero_copy_from = match value {
                    "auto" => ConnectOptions::default().zero_copy_from,
                    "never" => usize::MAX,
                    bytes => number(bytes, "auto, never or a number of bytes")?,
                };
            }
            "orderly" => self.is_orderly = true,
            "hard" => self.soft = false,
            "soft" => self.soft = true,
            "timeo" => {
                let tenths: u32 = number(value, "a number of tenths of a second")?;
                if tenths == 0 {
                    return Err("a reply needs some time".to_owned());
                }
                self.time_limit = Duration::from_millis(u64::from(tenths) * 100);
            }
            "trans" => {
                self.trans = Some(match value {
                    "tcp" => Trans::Tcp,
                    "unix" => Trans::Unix,
                    "fd" => Trans::Fd(None),
                    "virtio" | "xen" | "rdma" | "usbg" => {
                        return Err("only the kernel's own client has that".to_owned());
                    }
                    _ => return Err("trans is tcp, unix or fd".to_owned()),
                });
            }
            "port" => self.port = Some(number(value, "a port, 65535 at most")?),
            _ => self.add_descriptor(value)?,
        }
        Ok(())
    }

    /// `rfdno` and `wfdno`, which have to be one and the same.
    fn add_descriptor(&mut self, value: &str) -> Result<(), String> {
        let fd = number(value, "the number of a descriptor")?;
        match self.trans {
            Some(Trans::Fd(Some(other))) if other != fd => {
                return Err("rfdno and wfdno have to be one socket".to_owned());
            }
            _ => self.trans = Some(Trans::Fd(Some(fd))),
        }
        Ok(())
    }

    /// In the words of the client, for the export `aname`.
    pub(in crate::mount) fn service(&self, aname: &str, posix_acl: bool) -> ServiceOptions {
        let mut connect = ConnectOptions {
            msize: self.msize,
            time_limit: Some(self.time_limit),
            zero_copy_from: self.zero_copy_from,
            is_orderly: self.is_orderly,
            aname: aname.as_bytes().to_vec(),
            ..ConnectOptions::default()
        };
        connect.offer_from(self.dialect);
        if let Some(name) = &self.uname {
            connect.uname = name.as_bytes().to_vec();
        }
        if let Some(uid) = self.uid {
            connect.uid = uid;
        }
        ServiceOptions {
            connect,
            access: self.access,
            persistence: match self.soft {
                true => Persistence::Soft(self.time_limit),
                false => Persistence::Hard,
            },
            posix_acl,
            is_being_killed: Some(caller::is_being_killed),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    // No sign: "+3" is a number to Rust.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let parsed = digits.and_then(|digits| digits.parse().ok());
    parsed.ok_or_else(|| format!("write {what}"))
}
