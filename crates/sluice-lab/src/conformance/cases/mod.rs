//! The cases, by what they are about.

/// A [`Case`] named after its module and function.
macro_rules! case {
    ($run:ident) => {
        case!($run, $crate::conformance::Needs::empty())
    };
    ($run:ident, $needs:expr) => {
        $crate::conformance::Case {
            name: concat!(module_path!(), "::", stringify!($run)),
            needs: $needs,
            run: $run,
        }
    };
}

mod attr;
mod content;
mod create;
mod dir;
mod link;
mod lookup;
mod make;
mod open;
mod remove;
mod symlink;
mod time;

use super::harness::Case;

/// Every case there is.
pub fn all() -> Vec<Case> {
    let groups = [
        attr::CASES,
        content::CASES,
        create::CASES,
        dir::CASES,
        link::CASES,
        lookup::CASES,
        make::CASES,
        open::CASES,
        remove::CASES,
        symlink::CASES,
        time::CASES,
    ];
    let here = concat!(module_path!(), "::");
    let named = |case: &Case| Case {
        name: case.name.strip_prefix(here).unwrap_or(case.name),
        ..*case
    };
    groups.iter().copied().flatten().map(named).collect()
}
