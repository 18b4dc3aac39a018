//! Compares `cargo metadata` with the crate table of ARCHITECTURE.md: arrows point one way only,
//! and unsafe code lives in two crates.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Which crates of this workspace each crate may import. What tests import (dev-dependencies) is
/// free: a test may look at its crate from above.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("sluice-vfs", &[]),
    ("sluice-proto", &["sluice-vfs"]),
    ("sluice-sys", &["sluice-vfs"]),
    ("sluice-crew", &[]),
    ("sluice-virtio", &["sluice-crew"]),
    ("sluice-export", &["sluice-vfs", "sluice-sys"]),
    ("sluice-cache", &["sluice-vfs"]),
    (
        "sluice-client",
        &["sluice-vfs", "sluice-proto", "sluice-sys", "sluice-cache"],
    ),
    ("sluicefs", &RELEASED),
    ("sluice-lab", &ALL),
    ("xtask", &[]),
];

const RELEASED: [&str; 8] = [
    "sluice-vfs",
    "sluice-proto",
    "sluice-sys",
    "sluice-crew",
    "sluice-virtio",
    "sluice-export",
    "sluice-cache",
    "sluice-client",
];

const ALL: [&str; 9] = [
    "sluice-vfs",
    "sluice-proto",
    "sluice-sys",
    "sluice-crew",
    "sluice-virtio",
    "sluice-export",
    "sluice-cache",
    "sluice-client",
    "sluicefs",
];

/// The crates that may contain unsafe code; all others forbid it.
const MAY_BE_UNSAFE: [&str; 2] = ["sluice-sys", "sluice-virtio"];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Prints one line per violation.
///
/// # Errors
/// When there are any, or when cargo cannot be asked.
pub(crate) fn run() -> Result<(), String> {
    let metadata = metadata()?;
    let violations = violations(&metadata, |path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    })?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} violations of the crate table in ARCHITECTURE.md"
        )),
    }
}

fn metadata() -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        ));
    }
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata is not JSON: {error}"))
}

fn violations(
    metadata: &Value,
    read: impl Fn(&Path) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let packages = array(metadata, "packages")?;
    let members = packages
        .iter()
        .map(|package| string(package, "name"))
        .collect::<Result<BTreeSet<_>, _>>()?;
    let mut found = Vec::new();
    for package in packages {
        let name = string(package, "name")?;
        found.extend(bad_imports(name, package, &members)?);
        if !MAY_BE_UNSAFE.contains(&name) {
            found.extend(roots_without_forbid(name, package, &read)?);
        }
    }
    Ok(found)
}

fn bad_imports(
    name: &str,
    package: &Value,
    members: &BTreeSet<&str>,
) -> Result<Vec<String>, String> {
    let Some((_, allowed)) = MAY_IMPORT.iter().find(|(member, _)| *member == name) else {
        return Ok(vec![format!("{name}: not in the crate table")]);
    };
    let mut found = Vec::new();
    for dependency in array(package, "dependencies")? {
        let import = string(dependency, "name")?;
        // cargo writes null for an ordinary dependency.
        let for_tests = dependency["kind"].as_str() == Some("dev");
        if members.contains(import) && !for_tests && !allowed.contains(&import) {
            found.push(format!("{name}: must not import {import}"));
        }
    }
    Ok(found)
}

/// Looks at the root file of each library and program; the attribute covers what it includes.
fn roots_without_forbid(
    name: &str,
    package: &Value,
    read: impl Fn(&Path) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for target in array(package, "targets")? {
        let is_root = array(target, "kind")?
            .iter()
            .any(|kind| matches!(kind.as_str(), Some("lib" | "bin" | "proc-macro")));
        let path = string(target, "src_path")?;
        if is_root
            && !read(Path::new(path))?
                .lines()
                .any(|line| line.trim() == FORBID)
        {
            found.push(format!("{name}: {path} lacks {FORBID}"));
        }
    }
    Ok(found)
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>, String> {
    value[key]
        .as_array()
        .ok_or_else(|| format!("cargo metadata has no list {key:?}"))
}

fn string<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key]
        .as_str()
        .ok_or_else(|| format!("cargo metadata has no text {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({
            "name": name,
            "dependencies": dependencies,
            "targets": [
                {"kind": ["lib"], "src_path": format!("{name}/lib.rs")},
                {"kind": ["test"], "src_path": format!("{name}/tests/any.rs")},
            ],
        })
    }

    fn found(packages: &[Value], source: &str) -> Vec<String> {
        violations(&json!({ "packages": packages }), |path| {
            assert!(
                path.ends_with("lib.rs"),
                "only roots are read: {}",
                path.display()
            );
            Ok(source.to_owned())
        })
        .unwrap()
    }

    #[test]
    fn arrows_of_the_table_pass() {
        let vfs = package("sluice-vfs", &json!([{"name": "libc", "kind": null}]));
        let sys = package("sluice-sys", &json!([{"name": "sluice-vfs", "kind": null}]));
        assert_eq!(found(&[vfs, sys], FORBID), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_against_the_table_is_named() {
        let virtio = package("sluice-virtio", &json!([]));
        let vfs = package(
            "sluice-vfs",
            &json!([{"name": "sluice-virtio", "kind": null}]),
        );
        assert_eq!(
            found(&[virtio, vfs], FORBID),
            ["sluice-vfs: must not import sluice-virtio"]
        );
    }

    #[test]
    fn only_tests_import_the_lab() {
        let lab = package("sluice-lab", &json!([]));
        let imports = |kind: Value| {
            let sluicefs = package("sluicefs", &json!([{"name": "sluice-lab", "kind": kind}]));
            found(&[lab.clone(), sluicefs], FORBID)
        };
        assert_eq!(imports(json!("dev")), Vec::<String>::new());
        assert_eq!(
            imports(json!(null)),
            ["sluicefs: must not import sluice-lab"]
        );
        assert_eq!(
            imports(json!("build")),
            ["sluicefs: must not import sluice-lab"]
        );
    }

    #[test]
    fn a_crate_that_nobody_wrote_down_is_named() {
        assert_eq!(
            found(&[package("sluice-new", &json!([]))], FORBID),
            ["sluice-new: not in the crate table"]
        );
    }

    #[test]
    fn unsafe_code_is_forbidden_but_in_two_crates() {
        let packages =
            ["sluice-vfs", "sluice-sys", "sluice-virtio"].map(|name| package(name, &json!([])));
        assert_eq!(
            found(&packages, "// #![forbid(unsafe_code)]\n"),
            ["sluice-vfs: sluice-vfs/lib.rs lacks #![forbid(unsafe_code)]"]
        );
    }
}
