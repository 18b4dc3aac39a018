//! Options about 9P.

use crate::serve::{Access, P9Options, P9Share, ZeroCopy};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_client::Address;
use sluice_proto::p9::serve::{QidVersion, Squash};
use sluice_proto::p9::wire::MSIZE_MIN;
use std::os::unix::ffi::OsStrExt;

/// Largest message that may be asked for, in bytes.
const MSIZE_MAX: u32 = 16 << 20;

/// The options that say where 9P is served.
pub(super) const PLACES: &str = "9p-places";

/// Becomes a [`P9Share`], and [`P9Options`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "9P")]
pub(super) struct P9Args {
    /// Serve 9P (9P2000.L, 9P2000.u, 9P2000) at this address: unix:PATH,
    /// tcp:HOST:PORT, vsock:PORT, fd:N for a socket that this process was started
    /// with (it listens, or is connected), or activation for those that systemd
    /// passes. May be repeated
    #[arg(id = "addresses", long = "9p", value_name = "ADDRESS")]
    addresses: Vec<Address>,

    /// Let other machines connect over TCP: 9P has no encryption, and whoever
    /// connects is whom it says it is
    #[arg(long, requires = "addresses")]
    allow_remote: bool,

    /// The name under which clients attach to this share; where an address has
    /// one share, or for its first, no name works as well
    #[arg(long, value_name = "NAME", requires = "addresses", value_parser = parse_aname)]
    aname: Option<String>,

    /// As whom requests count, and who decides what they may do: user on sockets,
    /// client on virtio (where the guest's kernel checks) unless --squash is given
    #[arg(long, value_name = "WHO", value_parser = access(), requires = PLACES)]
    access: Option<Access>,

    /// Do requests as someone else: none, root (the superuser's as nobody) or
    /// all, the latter two also with :UID:GID
    #[arg(long, value_name = "WHOSE", default_value = "none", requires = PLACES)]
    squash: Squash,

    /// What clients take for the version of a file
    #[arg(long, value_name = "WHAT", default_value = "stable", value_parser = qid_version(),
        requires = PLACES)]
    qid_version: QidVersion,

    /// Largest message that a client may ask for, in bytes, or with K or M
    /// behind it; from 4K to 16M
    #[arg(long, value_name = "BYTES", default_value_t = P9Options::default().msize,
        value_parser = parse_msize, requires = PLACES)]
    msize: u32,

    /// Reads of so many bytes or more send pages of the file as they are; auto is
    /// 65536
    #[arg(long, value_name = "auto|never|BYTES", default_value = "auto")]
    zero_copy: ZeroCopy,
}

impl P9Args {
    /// What these options ask for; nothing without an address.
    pub(super) fn share(&self) -> Result<Option<P9Share>, String> {
        let duplicate = (1..self.addresses.len())
            .find(|at| self.addresses[..*at].contains(&self.addresses[*at]));
        if let Some(at) = duplicate {
            return Err(format!("{} is given twice", self.addresses[at]));
        }
        let named = |address: &&Address| matches!(address, Address::Unix(path) if path.as_os_str().as_bytes().contains(&b'#'));
        if let Some(address) = self.addresses.iter().find(named) {
            return Err(format!(
                "{address}: clients write the name of a share behind '#'; give it with --aname"
            ));
        }
        if self.addresses.is_empty() {
            return Ok(None);
        }
        Ok(Some(P9Share {
            addresses: self.addresses.clone(),
            aname: self.aname.clone(),
        }))
    }

    /// How it is to be served.
    pub(super) fn options(&self) -> P9Options {
        P9Options {
            allow_remote: self.allow_remote,
            access: self.access,
            squash: self.squash,
            qid_version: self.qid_version,
            msize: self.msize,
            zero_copy: self.zero_copy,
        }
    }
}

/// What clients can ask for, and one line can say.
fn parse_aname(text: &str) -> Result<String, String> {
    match text {
        "" => {
            Err("write a name; without --aname, no name and the directory's path work".to_owned())
        }
        _ if text.contains(char::is_control) => {
            Err("a name cannot hold control characters".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

/// From 4 KiB to 16 MiB, in bytes or with a unit.
pub(super) fn parse_msize(text: &str) -> Result<u32, String> {
    let (number, unit) = match text.strip_suffix(['K', 'k']) {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(number) => (number, 1 << 20),
            None => (text, 1),
        },
    };
    let bytes = number
        .parse()
        .ok()
        .and_then(|number: u32| number.checked_mul(unit));
    bytes
        .filter(|bytes| (MSIZE_MIN..=MSIZE_MAX).contains(bytes))
        .ok_or_else(|| "write a size from 4K to 16M, such as 131072 or 1M".to_owned())
}

fn access() -> impl TypedValueParser<Value = Access> {
    PossibleValuesParser::new([
        PossibleValue::new("user")
            .help("As the user whom an attach names, with that user's rights"),
        PossibleValue::new("client").help(
            "The same, but the client has checked what the user may do; on unix \
                sockets only root and the user that serves are believed that",
        ),
        PossibleValue::new("any")
            .help("As the user that serves (or as --squash says), whoever attaches"),
    ])
    .try_map(|word| word.parse())
}

fn qid_version() -> impl TypedValueParser<Value = QidVersion> {
    PossibleValuesParser::new([
        PossibleValue::new("stable")
            .help("A number that stays: Linux keeps the hard links of a file together"),
        PossibleValue::new("content").help("Another one whenever the content changes"),
    ])
    .try_map(|word| word.parse())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_size_with_or_without_a_unit() {
        for (text, bytes) in [
            ("4096", 4096),
            ("4K", 4096),
            ("131072", 131_072),
            ("16m", 16 << 20),
        ] {
            assert_eq!(parse_msize(text), Ok(bytes), "{text}");
        }
        for text in [
            "", "K", "4095", "3K", "17M", "16777217", "1G", "-1", "4194304K",
        ] {
            parse_msize(text).unwrap_err();
        }
    }
}
