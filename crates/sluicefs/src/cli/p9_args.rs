//! Options about 9P.

use crate::serve::{Access, P9Options, P9Share};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use sluice_client::Address;
use sluice_proto::p9::serve::{QidVersion, Squash};
use sluice_proto::p9::wire::MSIZE_MIN;

/// Largest message that may be asked for, in bytes.
const MSIZE_MAX: u32 = 16 << 20;

/// Becomes a [`P9Share`].
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
    #[arg(long, value_name = "NAME", requires = "addresses")]
    aname: Option<String>,

    /// As whom requests count, and who decides what they may do
    #[arg(long, value_name = "WHO", default_value = "user", value_parser = access())]
    access: Access,

    /// Do requests as someone else: none, root (the superuser's as nobody) or
    /// all, the latter two also with :UID:GID
    #[arg(long, value_name = "WHOSE", default_value = "none")]
    squash: Squash,

    /// What clients take for the version of a file
    #[arg(long, value_name = "WHAT", default_value = "stable", value_parser = qid_version())]
    qid_version: QidVersion,

    /// Largest message in bytes that a client may ask for, from 4096 on
    #[arg(long, value_name = "BYTES", default_value_t = P9Options::default().msize,
        value_parser = clap::value_parser!(u32).range(i64::from(MSIZE_MIN)..=i64::from(MSIZE_MAX)))]
    msize: u32,
}

impl P9Args {
    /// What these options ask for; nothing without an address.
    pub(super) fn share(&self) -> Result<Option<P9Share>, String> {
        let duplicate = (1..self.addresses.len())
            .find(|at| self.addresses[..*at].contains(&self.addresses[*at]));
        if let Some(at) = duplicate {
            return Err(format!("{} is given twice", self.addresses[at]));
        }
        if self.addresses.is_empty() {
            return Ok(None);
        }
        Ok(Some(P9Share {
            addresses: self.addresses.clone(),
            aname: self.aname.clone(),
            options: P9Options {
                allow_remote: self.allow_remote,
                access: self.access,
                squash: self.squash,
                qid_version: self.qid_version,
                msize: self.msize,
            },
        }))
    }
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
