//! Several services on one address, told apart by the name that a peer attaches
//! to.

use sluice_vfs::{AttachOptions, Attached, Errno, FileService, Result};
use std::sync::Arc;

/// A service that hands on to others.
pub(super) struct Exports(Vec<Export>);

/// One of them.
pub(super) struct Export {
    /// Names that it goes by; the first is its own, others may be so, too.
    pub(super) names: Vec<Vec<u8>>,
    pub(super) service: Arc<dyn FileService>,
}

impl Exports {
    /// The first of them is who is meant by no name, or by `/`.
    pub(super) fn new(exports: Vec<Export>) -> Self {
        Exports(exports)
    }

    fn find(&self, name: &[u8]) -> Option<&Export> {
        let own = |export: &&Export| export.names.first().is_some_and(|own| own == name);
        let any = |export: &&Export| export.names.iter().any(|known| known == name);
        let named = self.0.iter().find(own).or(self.0.iter().find(any));
        match name {
            b"" | b"/" => named.or(self.0.first()),
            _ => named,
        }
    }
}

impl FileService for Exports {
    fn attach(&self, options: AttachOptions<'_>) -> Result<Attached> {
        let export = self.find(options.export).ok_or(Errno::ENOENT)?;
        export.service.attach(AttachOptions {
            export: b"",
            ..options
        })
    }
}
