//! Finding a machine on this host.

use super::super::image::Image;
use super::super::modules::ModuleDir;
use super::{Engine, Machine, MachineKind};
use crate::failure::Failure;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Which machine is wanted. The default is any that is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineChoice {
    /// Its kind.
    pub kind: MachineKind,
    /// A user-mode Linux program, or a bzImage for QEMU.
    pub kernel: Option<PathBuf>,
    /// Where the kernel's modules are: a directory that `depmod` prepared, or
    /// one that has it as `RELEASE` or `lib/modules/RELEASE`.
    pub modules: Option<PathBuf>,
    /// Where to look first: a directory that the project's `lab/prepare`
    /// filled. `$SLUICE_LAB_CACHE` unless given.
    pub lab_cache: Option<PathBuf>,
}

/// Where this host keeps programs and kernels.
pub(in crate::sandbox) struct Places {
    /// The directories of `$PATH`.
    pub(in crate::sandbox) path: Vec<PathBuf>,
    /// [`MachineChoice::lab_cache`]
    pub(in crate::sandbox) lab: Option<PathBuf>,
    /// The release of the running kernel.
    release: String,
}

impl Places {
    pub(in crate::sandbox) fn of(choice: &MachineChoice) -> Self {
        let lab = choice.lab_cache.clone();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        Places {
            path: std::env::split_paths(&path).collect(),
            lab: lab.or_else(|| std::env::var_os("SLUICE_LAB_CACHE").map(PathBuf::from)),
            release,
        }
    }

    /// Files called so in the lab's cache and in `$PATH`, in this order.
    pub(in crate::sandbox) fn candidates(&self, in_lab: &str, names: &[&str]) -> Vec<PathBuf> {
        let lab = self.lab.iter().map(|lab| lab.join(in_lab));
        let path = names
            .iter()
            .flat_map(|name| self.path.iter().map(move |dir| dir.join(name)));
        lab.chain(path).filter(|file| file.is_file()).collect()
    }
}

impl MachineChoice {
    pub(in crate::sandbox) fn find(&self, places: &Places) -> Result<Machine, Failure> {
        match &self.kernel {
            Some(kernel) => self.of_kernel(kernel, places),
            None => self.of_host(places),
        }
    }

    fn of_kernel(&self, kernel: &Path, places: &Places) -> Result<Machine, Failure> {
        let kernel = &std::path::absolute(kernel).unwrap_or_else(|_| kernel.to_owned());
        let shown = kernel.display();
        let image = Image::of(kernel).map_err(|error| Failure::from_io("read", kernel, &error))?;
        match (image, self.kind) {
            (Image::Program { .. }, MachineKind::Auto | MachineKind::Uml) => self.uml(kernel),
            (Image::Kernel { release }, MachineKind::Auto | MachineKind::Qemu) => {
                self.qemu(kernel, &release, places)
            }
            (Image::Program { .. }, MachineKind::Qemu) => Err(Failure::new(format!(
                "'{shown}' is a program, and QEMU needs a kernel"
            ))
            .advise("choose a bzImage, or --machine=uml")),
            (Image::Kernel { .. }, MachineKind::Uml) => Err(Failure::new(format!(
                "'{shown}' is a kernel for QEMU, not user-mode Linux"
            ))
            .advise("choose a linux.uml, or --machine=qemu")),
            (Image::Other, _) => Err(Failure::new(format!(
                "'{shown}' is neither user-mode Linux nor a bzImage"
            ))),
        }
    }

    fn of_host(&self, places: &Places) -> Result<Machine, Failure> {
        if self.kind != MachineKind::Qemu {
            let found = places.candidates("guests/uml/linux.uml", &["linux.uml", "linux"]);
            if let Some(machine) = found.iter().find_map(|kernel| self.uml(kernel).ok()) {
                return Ok(machine);
            }
        }
        if self.kind != MachineKind::Uml {
            let on_host = PathBuf::from(format!("/boot/vmlinuz-{}", places.release));
            let in_lab = places.candidates("guests/qemu/vmlinuz", &[]);
            for kernel in in_lab.iter().chain([&on_host]) {
                if let Ok(Image::Kernel { release }) = Image::of(kernel) {
                    return self.qemu(kernel, &release, places);
                }
            }
        }
        Err(Failure::new(match self.kind {
            MachineKind::Auto => "found neither user-mode Linux nor a kernel for QEMU",
            MachineKind::Uml => "found no user-mode Linux",
            MachineKind::Qemu => "found no kernel for QEMU",
        })
        .advise(match self.kind {
            MachineKind::Auto | MachineKind::Uml => {
                "install the package user-mode-linux, or name a kernel with --kernel"
            }
            MachineKind::Qemu => "name a bzImage with --kernel, and its modules with --modules",
        }))
    }

    fn uml(&self, kernel: &Path) -> Result<Machine, Failure> {
        let release = uml_release(kernel)?;
        let modules = match &self.modules {
            Some(dir) => Some(named_modules(dir, &release)?),
            // Where Debian's package puts both.
            None => std::fs::canonicalize(kernel).ok().and_then(|kernel| {
                let prefix = kernel.parent()?.parent()?;
                ModuleDir::find(&prefix.join("lib/uml/modules"), &release)
            }),
        };
        Ok(Machine {
            engine: Engine::Uml,
            kernel: kernel.to_owned(),
            modules,
        })
    }

    fn qemu(&self, kernel: &Path, release: &str, places: &Places) -> Result<Machine, Failure> {
        let name = "qemu-system-x86_64";
        let program = places
            .candidates("bin/qemu-system-x86_64", &[name])
            .into_iter()
            .next()
            .ok_or_else(|| {
                Failure::new(format!("found no {name}"))
                    .advise("install the package qemu-system-x86")
            })?;
        let modules = match &self.modules {
            Some(dir) => Some(named_modules(dir, release)?),
            None => kernel
                .parent()
                .into_iter()
                .chain([Path::new("/")])
                .find_map(|dir| ModuleDir::find(dir, release)),
        };
        Ok(Machine {
            engine: Engine::Qemu { program },
            kernel: kernel.to_owned(),
            modules,
        })
    }
}

fn named_modules(dir: &Path, release: &str) -> Result<ModuleDir, Failure> {
    ModuleDir::find(dir, release).ok_or_else(|| {
        Failure::new(format!(
            "'{}' holds no modules of the kernel {release}",
            dir.display()
        ))
        .advise("run depmod there if it should")
    })
}

/// What user-mode Linux prints as its version.
fn uml_release(kernel: &Path) -> Result<String, Failure> {
    let output = Command::new(kernel)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| Failure::from_io("run", kernel, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().next() {
        Some(release) if release.starts_with(|first: char| first.is_ascii_digit()) => {
            Ok(release.to_owned())
        }
        _ => Err(Failure::from_io(
            "use as user-mode Linux",
            kernel,
            &io::Error::other("it names no kernel release"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a program. Done here, a child that another test starts meanwhile
    /// might hold it open for writing, and it could not be run.
    fn install(from: &Path, to: &Path) {
        let status = Command::new("install").arg(from).arg(to).status();
        assert!(status.unwrap().success());
    }

    fn nowhere() -> Places {
        Places {
            path: Vec::new(),
            lab: None,
            release: "0.0-none".into(),
        }
    }

    #[test]
    fn a_host_without_machines_is_told_what_to_install() {
        for (kind, words) in [
            (MachineKind::Auto, "install the package user-mode-linux"),
            (MachineKind::Uml, "found no user-mode Linux"),
            (MachineKind::Qemu, "--modules"),
        ] {
            let choice = MachineChoice {
                kind,
                ..MachineChoice::default()
            };
            let error = choice.find(&nowhere()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_kernel_decides_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kernel");
        let choice = |kind| MachineChoice {
            kind,
            kernel: Some(file.clone()),
            ..MachineChoice::default()
        };
        let error = |kind| choice(kind).find(&nowhere()).unwrap_err().to_string();

        assert!(error(MachineKind::Auto).contains("No such file"));
        std::fs::write(&file, "text").unwrap();
        assert!(error(MachineKind::Auto).contains("neither user-mode Linux nor a bzImage"));

        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x300..0x303].copy_from_slice(b"7.2");
        image[0x20E..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        std::fs::write(&file, &image).unwrap();
        assert!(error(MachineKind::Uml).contains("is a kernel for QEMU"));
        assert!(error(MachineKind::Auto).contains("install the package qemu-system-x86"));

        install(Path::new("/bin/true"), &file);
        assert!(error(MachineKind::Qemu).contains("is a program"));
        assert!(error(MachineKind::Auto).contains("names no kernel release"));
    }

    #[test]
    fn a_lab_comes_before_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let lab = dir.path().join("lab");
        let bin = dir.path().join("bin");
        std::fs::create_dir_all(lab.join("guests/uml")).unwrap();
        std::fs::create_dir_all(bin.join("../lib/uml/modules/7.1")).unwrap();
        std::fs::create_dir_all(&bin).unwrap();
        for (file, release) in [
            (lab.join("guests/uml/linux.uml"), "7.2"),
            (bin.join("linux"), "7.1"),
        ] {
            let script = dir.path().join("script");
            std::fs::write(&script, format!("#!/bin/sh\necho {release}\n")).unwrap();
            install(&script, &file);
        }
        std::fs::write(bin.join("../lib/uml/modules/7.1/modules.dep"), "").unwrap();
        let mut places = Places {
            path: vec!["/nonexistent".into(), bin.clone()],
            lab: Some(lab.clone()),
            release: "0.0-none".into(),
        };
        let found = MachineChoice::default().find(&places).unwrap();
        assert_eq!(
            (found.kernel, found.modules),
            (lab.join("guests/uml/linux.uml"), None)
        );
        places.lab = None;
        let found = MachineChoice::default().find(&places).unwrap();
        assert_eq!(found.kernel, bin.join("linux"));
        assert!(found.modules.is_some());
    }
}
