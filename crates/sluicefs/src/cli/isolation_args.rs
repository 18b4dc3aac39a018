//! Options about the isolation of a serving process.

use crate::isolation::{CapabilityChanges, IdMapping, IsolationOptions, Sandbox, SeccompMode};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Becomes [`IsolationOptions`].
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Isolation")]
pub(super) struct IsolationArgs {
    /// What the serving process sees of the file system
    #[arg(long, value_name = "WHAT", default_value = "namespace", value_parser = sandbox())]
    sandbox: Sandbox,

    /// What happens to a system call that serving does not make
    #[arg(long, value_name = "ACTION", default_value = "kill", value_parser = seccomp())]
    seccomp: SeccompMode,

    /// Give the serving process a user name space with these user ids; may be
    /// repeated
    #[arg(long, value_name = ":INSIDE:OUTSIDE:COUNT:")]
    uid_map: Vec<IdMapping>,

    /// The same for group ids
    #[arg(long, value_name = ":INSIDE:OUTSIDE:COUNT:")]
    gid_map: Vec<IdMapping>,

    /// Capabilities to keep (+) or to give up (-) besides what serving needs
    #[arg(long, value_name = "+NAME:-NAME…", allow_hyphen_values = true)]
    modcaps: Option<CapabilityChanges>,
}

impl IsolationArgs {
    /// What these options ask for.
    pub(super) fn options(&self) -> IsolationOptions {
        IsolationOptions {
            sandbox: self.sandbox,
            seccomp: self.seccomp,
            uid_map: self.uid_map.clone(),
            gid_map: self.gid_map.clone(),
            capabilities: self.modcaps.unwrap_or_default(),
        }
    }
}

fn sandbox() -> impl TypedValueParser<Value = Sandbox> {
    PossibleValuesParser::new([
        PossibleValue::new("namespace")
            .help("Nothing but the shares, in mount, process, network and IPC name spaces"),
        PossibleValue::new("chroot").help("The share as its root directory; needs root"),
        PossibleValue::new("none").help("All; Landlock and seccomp apply nevertheless"),
    ])
    .map(|word| match word.as_str() {
        "chroot" => Sandbox::Chroot,
        "none" => Sandbox::None,
        _ => Sandbox::Namespace,
    })
}

fn seccomp() -> impl TypedValueParser<Value = SeccompMode> {
    PossibleValuesParser::new([
        PossibleValue::new("kill").help("It ends the process"),
        PossibleValue::new("log").help("It is made, and the kernel logs it"),
        PossibleValue::new("trap").help("The process gets SIGSYS"),
        PossibleValue::new("none").help("It is made"),
    ])
    .map(|word| match word.as_str() {
        "log" => SeccompMode::Log,
        "trap" => SeccompMode::Trap,
        "none" => SeccompMode::None,
        _ => SeccompMode::Kill,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        isolation: IsolationArgs,
    }

    fn options(arguments: &[&str]) -> IsolationOptions {
        let line = [&["test"], arguments].concat();
        let line = Line::try_parse_from(line).unwrap();
        line.isolation.options()
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(options(&[]), IsolationOptions::default());
    }

    #[test]
    fn each_option_arrives() {
        let given = options(&[
            "--sandbox=none",
            "--seccomp",
            "log",
            "--uid-map=:0:100000:65536:",
            "--gid-map=:0:100000:65536:",
            "--modcaps=-mknod:+sys_admin",
        ]);
        let map: IdMapping = ":0:100000:65536:".parse().unwrap();
        let expected = IsolationOptions {
            sandbox: Sandbox::None,
            seccomp: SeccompMode::Log,
            uid_map: vec![map],
            gid_map: vec![map],
            capabilities: "-mknod:+sys_admin".parse().unwrap(),
        };
        assert_eq!(given, expected);
        assert_eq!(options(&["--sandbox=chroot"]).sandbox, Sandbox::Chroot);
        assert_eq!(options(&["--seccomp=trap"]).seccomp, SeccompMode::Trap);
    }
}
