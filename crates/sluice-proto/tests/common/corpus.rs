//! The fuzz targets' corpora.

use std::path::Path;

/// Every file of a corpus folder.
pub(crate) fn corpus(folder: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(folder);
    let files: Vec<_> = std::fs::read_dir(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .map(|entry| std::fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!files.is_empty(), "{} is empty", path.display());
    files
}
