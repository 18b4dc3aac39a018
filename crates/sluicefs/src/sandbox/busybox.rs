//! The one program that every guest has.

use super::image::Image;
use super::machine::Places;
use crate::failure::Failure;
use std::path::Path;

/// The content of a busybox that needs no libraries.
pub(super) fn load(places: &Places) -> Result<Vec<u8>, Failure> {
    let found = places.candidates("guests/busybox", &["busybox", "busybox.static"]);
    let is_static = |file: &&std::path::PathBuf| {
        matches!(Image::of(file), Ok(Image::Program { is_static: true }))
    };
    let file: &Path = found.iter().find(is_static).ok_or_else(|| {
        Failure::new("found no busybox that is statically linked")
            .advise("install the package busybox-static")
    })?;
    std::fs::read(file).map_err(|error| Failure::from_io("read", file, &error))
}
