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

mod acl;
mod attr;
mod content;
mod copy;
mod create;
mod dir;
mod event;
mod host;
mod identity;
mod limit;
mod link;
mod lock;
mod lock_wait;
mod lookup;
mod make;
mod open;
mod orphan;
mod ownership;
mod permission;
mod refusal;
mod remove;
mod rename;
mod space;
mod symlink;
mod time;
mod tmpfile;
mod xattr;

use super::harness::Case;

/// Every case there is.
pub fn all() -> Vec<Case> {
    let groups = [
        acl::CASES,
        attr::CASES,
        content::CASES,
        copy::CASES,
        create::CASES,
        dir::CASES,
        event::CASES,
        host::CASES,
        identity::CASES,
        limit::CASES,
        link::CASES,
        lock::CASES,
        lock_wait::CASES,
        lookup::CASES,
        make::CASES,
        open::CASES,
        orphan::CASES,
        ownership::CASES,
        permission::CASES,
        refusal::CASES,
        remove::CASES,
        rename::CASES,
        space::CASES,
        symlink::CASES,
        time::CASES,
        tmpfile::CASES,
        xattr::CASES,
    ];
    let here = concat!(module_path!(), "::");
    let named = |case: &Case| Case {
        name: case.name.strip_prefix(here).unwrap_or(case.name),
        ..*case
    };
    groups.iter().copied().flatten().map(named).collect()
}
