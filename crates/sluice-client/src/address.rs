//! Addresses of 9P servers, as users write them: where `serve` listens and
//! where clients connect.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a server listens or is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `unix:PATH`: a unix socket in the file system.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`; a host that is an IPv6 address stands in brackets.
    Tcp {
        /// Name or number, without brackets.
        host: String,
        /// From 0, with which the system chooses one to listen on.
        port: u16,
    },
    /// `vsock:PORT` to listen, `vsock:CID:PORT` to connect.
    Vsock {
        /// The machine: 2 is the host of a guest, 1 this machine itself.
        cid: Option<u32>,
        /// Not a TCP port: 32 bits of its own.
        port: u32,
    },
    /// `fd:N`: a socket that this process was started with.
    Fd(i32),
    /// `activation`: the listening sockets that the service manager passes
    /// (sd_listen_fds(3)).
    Activation,
}

/// An [`Address`] and which of the exports there is meant: `ADDRESS[#ANAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportAddress {
    /// Where the server is.
    pub address: Address,
    /// What Tattach asks for; empty for the server's first export.
    pub aname: String,
}

impl Address {
    /// Whether nobody but processes of this machine, its guests and its host
    /// reach it. For `tcp` that is a question to the resolver of names.
    ///
    /// # Errors
    /// A name that cannot be resolved.
    pub fn is_local(&self) -> io::Result<bool> {
        let is_loopback = |address: &SocketAddr| is_loopback(address.ip());
        match self {
            Address::Tcp { .. } => Ok(self.resolve()?.iter().all(is_loopback)),
            _ => Ok(true),
        }
    }

    /// The same wherever this process goes to (chdir(2)).
    ///
    /// # Errors
    /// A relative path, and nobody knows where this process is.
    pub fn absolute(self) -> io::Result<Self> {
        match self {
            Address::Unix(path) => Ok(Address::Unix(std::path::absolute(path)?)),
            other => Ok(other),
        }
    }

    /// The numbers behind a `tcp` address, at least one; none for others.
    ///
    /// # Errors
    /// A name that cannot be resolved.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let Address::Tcp { host, port } = self else {
            return Ok(Vec::new());
        };
        let found: Vec<_> = (host.as_str(), *port).to_socket_addrs()?.collect();
        match found.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(found),
        }
    }
}

/// An IPv4 address may be written as IPv6 (`::ffff:127.0.0.1`).
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            if text.contains('/') && !text.contains(':') {
                return format!("'{text}' is no address: write unix:{text} for a socket there");
            }
            if tcp(text).is_ok() {
                return format!("'{text}' is no address: write tcp:{text} for a port there");
            }
            format!(
                "'{text}' is no address: write unix:PATH, tcp:HOST:PORT, vsock:[CID:]PORT or \
                fd:N"
            )
        };
        if text == "activation" {
            return Ok(Address::Activation);
        }
        let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
        match kind {
            "unix" if rest.is_empty() => {
                Err("unix: needs a path behind it: write unix:PATH".to_owned())
            }
            "unix" => Ok(Address::Unix(PathBuf::from(rest))),
            "tcp" => tcp(rest),
            "vsock" => vsock(rest),
            "fd" => {
                let number = number(rest).ok_or_else(|| {
                    format!("'{rest}' is not the number of a descriptor: write fd:N")
                })?;
                Ok(Address::Fd(number))
            }
            _ => Err(unknown()),
        }
    }
}

fn tcp(rest: &str) -> Result<Address, String> {
    let incomplete = || format!("'{rest}' is not HOST:PORT: write tcp:HOST:PORT");
    let (host, port) = rest.rsplit_once(':').ok_or_else(incomplete)?;
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(host) => host,
        None if host.contains(':') => {
            return Err(format!(
                "write an IPv6 address in brackets: tcp:[{host}]:{port}"
            ));
        }
        None => host,
    };
    if host.is_empty() {
        return Err(incomplete());
    }
    Ok(Address::Tcp {
        host: host.to_owned(),
        port: number(port).ok_or_else(|| {
            format!(
                "'{port}' is not the number of a port, which is 65535 at most: write tcp:HOST:PORT"
            )
        })?,
    })
}

fn vsock(rest: &str) -> Result<Address, String> {
    let no_number = |text: &str, what: &str| {
        format!(
            "'{text}' is not the number of a {what}: write vsock:PORT to listen, vsock:CID:PORT to connect"
        )
    };
    let (cid, port) = match rest.split_once(':') {
        Some((cid, port)) => {
            let number = number(cid).ok_or_else(|| no_number(cid, "machine"))?;
            (Some(number), port)
        }
        None => (None, rest),
    };
    let port = number(port).ok_or_else(|| no_number(port, "port"))?;
    Ok(Address::Vsock { cid, port })
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    // No sign: "+3" is a number to Rust.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
            Address::Vsock { cid: None, port } => write!(f, "vsock:{port}"),
            Address::Vsock {
                cid: Some(cid),
                port,
            } => write!(f, "vsock:{cid}:{port}"),
            Address::Fd(number) => write!(f, "fd:{number}"),
            Address::Activation => f.write_str("activation"),
        }
    }
}

impl FromStr for ExportAddress {
    type Err = String;

    /// What follows the last `#` is the export's name.
    fn from_str(text: &str) -> Result<Self, String> {
        let (address, aname) = text.rsplit_once('#').unwrap_or((text, ""));
        Ok(ExportAddress {
            address: address.parse()?,
            aname: aname.to_owned(),
        })
    }
}

impl fmt::Display for ExportAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)?;
        match self.aname.as_str() {
            "" => Ok(()),
            aname => write!(f, "#{aname}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        let host = host.to_owned();
        Address::Tcp { host, port }
    }

    #[test]
    fn an_address_is_read_as_it_is_written() {
        let vsock = |cid, port| Address::Vsock { cid, port };
        for (text, expected) in [
            ("unix:/run/x.sock", Address::Unix("/run/x.sock".into())),
            ("unix:a:b", Address::Unix("a:b".into())),
            ("tcp:localhost:564", tcp("localhost", 564)),
            ("tcp:[::1]:0", tcp("::1", 0)),
            ("vsock:564", vsock(None, 564)),
            ("vsock:2:4294967295", vsock(Some(2), u32::MAX)),
            ("fd:3", Address::Fd(3)),
            ("activation", Address::Activation),
        ] {
            assert_eq!(text.parse(), Ok(expected.clone()), "{text}");
            assert_eq!(expected.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "unix",
            "unix:",
            "/run/x",
            "tcp:",
            "tcp:localhost",
            "tcp::564",
            "tcp:::1:564",
            "tcp:h:65536",
            "tcp:h:+1",
            "vsock:",
            "vsock:2:",
            "vsock:-1",
            "fd:",
            "fd:x",
            "fd:-1",
            "udp:h:1",
            "activation:",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn who_is_refused_is_told_what_to_write() {
        for (text, advice) in [
            ("x", "unix:PATH, tcp:HOST:PORT, vsock:[CID:]PORT or fd:N"),
            ("http://h:1/x", "unix:PATH, tcp:HOST:PORT"),
            ("/run/x", "write unix:/run/x"),
            ("127.0.0.1:564", "write tcp:127.0.0.1:564"),
            ("[::1]:564", "write tcp:[::1]:564"),
            ("unix:", "write unix:PATH"),
            ("tcp:localhost", "write tcp:HOST:PORT"),
            ("tcp:h:65536", "write tcp:HOST:PORT"),
            (
                "tcp:::1:564",
                "write an IPv6 address in brackets: tcp:[::1]:564",
            ),
            ("vsock:x:1", "vsock:CID:PORT to connect"),
            ("fd:x", "write fd:N"),
        ] {
            let why = text.parse::<Address>().unwrap_err();
            assert!(why.contains(advice), "{why}");
        }
    }

    #[test]
    fn an_export_is_named_behind_the_last_hash() {
        let parse = |text: &str| text.parse::<ExportAddress>().unwrap();
        let plain = parse("tcp:h:1");
        assert_eq!((plain.address, plain.aname.as_str()), (tcp("h", 1), ""));
        let named = parse("unix:/a#b#code");
        assert_eq!(named.address, Address::Unix("/a#b".into()));
        assert_eq!(named.aname, "code");
        assert_eq!(named.to_string(), "unix:/a#b#code");
    }

    #[test]
    fn only_loopback_is_local() {
        let is_local = |text: &str| text.parse::<Address>().unwrap().is_local().unwrap();
        assert!(is_local("tcp:127.0.0.1:1"));
        assert!(is_local("tcp:127.9.9.9:1"));
        assert!(is_local("tcp:[::1]:1"));
        assert!(is_local("tcp:[::ffff:127.0.0.1]:1"));
        assert!(is_local("unix:x"));
        assert!(is_local("vsock:1"));
        for text in ["tcp:0.0.0.0:1", "tcp:192.0.2.1:1", "tcp:[::]:1"] {
            assert!(!is_local(text), "{text}");
        }
    }
}
