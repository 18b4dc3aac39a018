//! Kernel modules that a guest has to load, in order, ready for `insmod`.

use crate::failure::Failure;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory that `depmod` prepared, such as `/lib/modules/6.12.1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModuleDir(PathBuf);

/// One module, uncompressed.
pub(super) struct Module {
    /// Of its file, `NAME.ko`.
    pub(super) file_name: String,
    pub(super) content: Vec<u8>,
}

impl ModuleDir {
    /// The modules of the kernel `release` under `dir`, which is that very
    /// directory, one like `/lib/modules`, or a root like `/`.
    pub(super) fn find(dir: &Path, release: &str) -> Option<Self> {
        let nested = format!("lib/modules/{release}");
        [dir.to_owned(), dir.join(release), dir.join(nested)]
            .into_iter()
            .find(|candidate| candidate.join("modules.dep").is_file())
            .map(ModuleDir)
    }

    /// Those of the named modules that are not built into the kernel, each
    /// behind everything that it needs.
    pub(super) fn load(&self, names: &[&str]) -> Result<Vec<Module>, Failure> {
        let dependencies = self.read("modules.dep")?;
        let builtin = self.read("modules.builtin")?;
        let files = load_order(&dependencies, &builtin, names).map_err(|name| {
            Failure::new(format!(
                "the kernel of '{}' has no module {name}",
                self.0.display()
            ))
            .advise("choose another with --kernel and --modules")
        })?;
        files.iter().map(|file| self.module(file)).collect()
    }

    fn module(&self, file: &str) -> Result<Module, Failure> {
        let path = self.0.join(file);
        let name = file.rsplit('/').next().unwrap_or(file);
        let end = name.find(".ko").map_or(name.len(), |dot| dot + 3);
        Ok(Module {
            file_name: name[..end].to_owned(),
            content: uncompressed(&path)?,
        })
    }

    fn read(&self, name: &str) -> Result<String, Failure> {
        let path = self.0.join(name);
        std::fs::read_to_string(&path).map_err(|error| Failure::from_io("read", &path, &error))
    }
}

/// Paths of module files in the order in which they can be loaded. `Err` is
/// the name that neither index knows.
fn load_order<'a>(
    dependencies: &'a str,
    builtin: &str,
    names: &[&'a str],
) -> Result<Vec<&'a str>, &'a str> {
    let lines: HashMap<String, (&str, &str)> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needed)| (module_name(file), (file, needed)))
        .collect();
    let builtin: Vec<String> = builtin.lines().map(module_name).collect();
    let mut order = Vec::new();
    for &name in names {
        match lines.get(&module_name(name)) {
            // A line names everything needed, direct or not, last things first.
            Some((file, needed)) => {
                for file in needed.split_whitespace().rev().chain([*file]) {
                    if !order.contains(&file) {
                        order.push(file);
                    }
                }
            }
            None if builtin.contains(&module_name(name)) => (),
            None => return Err(name),
        }
    }
    Ok(order)
}

/// `kernel/fs/9p/9p.ko.xz` is `9p`; dashes and underscores are the same.
fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    let end = base.find(".ko").unwrap_or(base.len());
    base[..end].replace('-', "_")
}

/// The module's content; the guest's `insmod` reads no compressed ones.
fn uncompressed(path: &Path) -> Result<Vec<u8>, Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let tool = match extension {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => {
            return std::fs::read(path).map_err(|error| Failure::from_io("read", path, &error));
        }
    };
    let output = Command::new(tool)
        .args(["-d", "-c"])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::from_io("run", Path::new(tool), &error)
                .advise(format!("kernel modules need it: install '{tool}'"))
        })?;
    if !output.status.success() {
        return Err(Failure::new(format!(
            "cannot unpack '{}': {}",
            path.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
        kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko\n\
        kernel/fs/fuse/fuse.ko:\n\
        kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz kernel/crypto/crc32c-generic.ko.xz\n\
        kernel/fs/jbd2/jbd2.ko.xz: kernel/crypto/crc32c-generic.ko.xz\n\
        kernel/crypto/crc32c-generic.ko.xz:\n";

    #[test]
    fn what_is_needed_comes_first_and_once() {
        let order = load_order(
            DEPENDENCIES,
            "kernel/drivers/virtio/virtio_pci.ko\n",
            &["virtio-pci", "fuse", "virtiofs", "jbd2", "ext4"],
        );
        assert_eq!(
            order.unwrap(),
            [
                "kernel/fs/fuse/fuse.ko",
                "kernel/fs/fuse/virtiofs.ko",
                "kernel/crypto/crc32c-generic.ko.xz",
                "kernel/fs/jbd2/jbd2.ko.xz",
                "kernel/fs/ext4/ext4.ko.xz",
            ]
        );
        assert_eq!(
            load_order(DEPENDENCIES, "", &["virtio_pci"]),
            Err("virtio_pci")
        );
        assert_eq!(
            load_order(DEPENDENCIES, "", &["crc32c_generic"]).unwrap(),
            ["kernel/crypto/crc32c-generic.ko.xz"]
        );
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let release = dir.path().join("lib/modules/9.9");
        std::fs::create_dir_all(release.join("kernel")).unwrap();
        std::fs::write(
            release.join("modules.dep"),
            "kernel/a_b.ko.gz: kernel/c.ko\nkernel/c.ko:\n",
        )
        .unwrap();
        std::fs::write(release.join("modules.builtin"), "").unwrap();
        std::fs::write(release.join("kernel/c.ko"), "plain").unwrap();
        std::fs::write(release.join("kernel/a_b.ko"), "packed").unwrap();
        let packed = Command::new("gzip")
            .arg(release.join("kernel/a_b.ko"))
            .status();
        assert!(packed.unwrap().success());

        let found = ModuleDir::find(dir.path(), "9.9").unwrap();
        assert_eq!(Some(&found), ModuleDir::find(&release, "9.9").as_ref());
        let loaded = found.load(&["a-b"]).unwrap();
        let loaded: Vec<_> = loaded
            .iter()
            .map(|module| (module.file_name.as_str(), module.content.as_slice()))
            .collect();
        assert_eq!(loaded, [("c.ko", &b"plain"[..]), ("a_b.ko", b"packed")]);
        let error = found.load(&["zfs"]).err().unwrap().to_string();
        assert!(error.contains("has no module zfs"), "{error}");
        assert_eq!(ModuleDir::find(dir.path(), "9.8"), None);
    }
}
